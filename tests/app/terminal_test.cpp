// Progress as a terminal shows it.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/display_width.h"
#include "base/utf8.h"
#include "tests/app/process.h"
#include "tests/video/make_clip.h"

namespace caption::test {
namespace {

namespace fs = std::filesystem;

struct OnTerminal {
  int exit_code = -1;
  std::string text;  // all that the terminal was sent
};

// stderr of caption-cli is a terminal so wide, and stdout too if wanted.
OnTerminal run_on_terminal(const std::vector<std::string>& arguments, int columns, const char* term,
                           bool is_stdout_terminal = false) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  REQUIRE(terminal >= 0);
  REQUIRE(::grantpt(terminal) == 0);
  REQUIRE(::unlockpt(terminal) == 0);
  const std::string name = ::ptsname(terminal);
  const int other_end = ::open(name.c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC);
  REQUIRE(other_end >= 0);
  const winsize size{
      .ws_row = 24, .ws_col = static_cast<unsigned short>(columns), .ws_xpixel = 0, .ws_ypixel = 0};
  REQUIRE(::ioctl(other_end, TIOCSWINSZ, &size) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const int nothing = ::open("/dev/null", O_RDWR);
    ::dup2(nothing, STDIN_FILENO);
    ::dup2(is_stdout_terminal ? other_end : nothing, STDOUT_FILENO);
    ::dup2(other_end, STDERR_FILENO);
    ::setenv("TERM", term, 1);
    ::setenv("XDG_CACHE_HOME", CAPTION_TEST_TMP "/cache", 0);
    std::vector<char*> argv = {const_cast<char*>(CAPTION_BINARY)};
    for (const std::string& argument : arguments) {
      argv.push_back(const_cast<char*>(argument.c_str()));
    }
    argv.push_back(nullptr);
    ::execv(CAPTION_BINARY, argv.data());
    ::_exit(127);
  }
  ::close(other_end);
  OnTerminal result;
  std::array<char, 4096> chunk{};
  // EIO: the last process has closed its end.
  for (ssize_t count = 0; (count = ::read(terminal, chunk.data(), chunk.size())) > 0;) {
    result.text.append(chunk.data(), static_cast<std::size_t>(count));
  }
  ::close(terminal);
  result.exit_code = wait_for(child);
  return result;
}

constexpr std::string_view kClearLine = "\r\033[K";

// What stood in the live line, one after the other: it begins behind kClearLine and ends before the
// next one or at the end of a line.
std::vector<std::string> live_lines(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = text.find(kClearLine); at != std::string::npos;
       at = text.find(kClearLine, at)) {
    at += kClearLine.size();
    const std::string line = text.substr(at, text.find('\r', at) - at);
    const bool is_progress = line.find('/') < 4 && line[0] >= '0' && line[0] <= '9';
    if (is_progress) lines.push_back(line);
  }
  return lines;
}

// Links to all samples under names that would break a line.
void fill(const fs::path& folder) {
  fs::create_directories(folder);
  const std::vector<fs::path> samples = sample_videos();
  for (std::size_t i = 0; i < samples.size(); ++i) {
    std::string name = std::to_string(i) + " ";
    for (int k = 0; k < 20; ++k) name += "눈\x1b[2J\n";
    fs::create_symlink(samples[i], folder / (name + "\xFF.mp4"));
  }
}

TEST_SUITE("app/terminal") {
  TEST_CASE("one live line that fits, whatever clips are called") {
    const TemporaryFolder folder;
    fill(folder.path() / "in");
    for (const int columns : {20, 40, 80, 200}) {
      CAPTURE(columns);
      const OnTerminal shown = run_on_terminal(
          {"run", (folder.path() / "in").string(), "--threads", "1"}, columns, "xterm-256color");
      CHECK(shown.exit_code == 0);
      const std::vector<std::string> lines = live_lines(shown.text);
      CHECK(!lines.empty());
      for (const std::string& line : lines) {
        CAPTURE(line);
        CHECK(line.find("/16") != std::string::npos);
        CHECK(display_width(line) < columns);
        CHECK(printable(line) == line);
      }
      // Nothing else is left of it, and nothing of the names was taken for a command.
      CHECK(shown.text.find("\033[2J") == std::string::npos);
      CHECK(shown.text.find("16 clips captioned in ") != std::string::npos);
    }
  }

  TEST_CASE("a terminal that cannot redraw gets plain lines") {
    const OnTerminal shown =
        run_on_terminal({"run", sample_video("").string(), "--threads", "1"}, 80, "dumb");
    CHECK(shown.exit_code == 0);
    CHECK(shown.text.find('\033') == std::string::npos);
    CHECK(shown.text.find("16 clips captioned in ") != std::string::npos);
  }

  TEST_CASE("a caption on the same terminal begins a line of its own") {
    const OnTerminal shown =
        run_on_terminal({"run", sample_video("").string(), "--threads", "1"}, 80, "xterm", true);
    CHECK(shown.exit_code == 0);
    CHECK(!live_lines(shown.text).empty());
    const std::string video = sample_video("").string();
    int num_captions = 0;
    for (std::size_t at = shown.text.find(video); at != std::string::npos;
         at = shown.text.find(video, at + 1)) {
      if (shown.text.find('\r', at) < shown.text.find(": ", at)) continue;  // in the live line
      ++num_captions;
      const std::string_view before = std::string_view(shown.text).substr(0, at);
      CHECK((before.ends_with("\n") || before.ends_with(kClearLine)));
    }
    CHECK(num_captions == 16);
  }
}

}  // namespace
}  // namespace caption::test
