// Tests the progress display on a terminal.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/display_width.h"
#include "base/utf8.h"
#include "tests/app/process.h"
#include "tests/app/terminal.h"
#include "tests/video/make_clip.h"

namespace caption::test {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kClearLine = "\r\033[K";

// Returns the successive contents of the live line: each begins after kClearLine and ends before
// the next one or at the end of a line.
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

// Makes links to all samples under names with characters that would break a line.
void fill(const fs::path& folder) {
  fs::create_directories(folder);
  const std::vector<fs::path> samples = small_videos();
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
    constexpr std::array<std::uint16_t, 4> kColumns = {20, 40, 80, 200};
    for (const std::uint16_t columns : kColumns) {
      CAPTURE(columns);
      const Finished shown =
          run_on_terminal({"run", (folder.path() / "in").string(), "--threads", "1"}, columns,
                          {{"TERM", "xterm-256color"}}, OnTerminal::kErrors);
      CHECK(shown.exit_code == 0);
      const std::vector<std::string> lines = live_lines(shown.out);
      CHECK(!lines.empty());
      for (const std::string& line : lines) {
        CAPTURE(line);
        CHECK(line.find("/16") != std::string::npos);
        CHECK(display_width(line) < columns);
        CHECK(printable(line) == line);
      }
      // No other control sequence is printed, and no file name is interpreted as one.
      CHECK(shown.out.find("\033[2J") == std::string::npos);
      CHECK(shown.out.find("16 clips captioned in ") != std::string::npos);
    }
  }

  TEST_CASE("a terminal that cannot redraw gets plain lines") {
    const Finished shown = run_on_terminal({"run", small_video("").string(), "--threads", "1"}, 80,
                                           {{"TERM", "dumb"}}, OnTerminal::kErrors);
    CHECK(shown.exit_code == 0);
    CHECK(shown.out.find('\033') == std::string::npos);
    CHECK(shown.out.find("16 clips captioned in ") != std::string::npos);
  }

  TEST_CASE("a caption on the same terminal begins a line of its own") {
    const Finished shown = run_on_terminal({"run", small_video("").string(), "--threads", "1"}, 80,
                                           {{"TERM", "xterm"}}, OnTerminal::kOutputs);
    CHECK(shown.exit_code == 0);
    CHECK(!live_lines(shown.out).empty());
    const std::string video = small_video("").string();
    int num_captions = 0;
    for (std::size_t at = shown.out.find(video); at != std::string::npos;
         at = shown.out.find(video, at + 1)) {
      if (shown.out.find('\r', at) < shown.out.find(": ", at)) continue;  // inside the live line
      ++num_captions;
      const std::string_view before = std::string_view(shown.out).substr(0, at);
      CHECK((before.ends_with("\n") || before.ends_with(kClearLine)));
    }
    CHECK(num_captions == 16);
  }
}

}  // namespace
}  // namespace caption::test
