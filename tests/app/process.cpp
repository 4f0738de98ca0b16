#include "tests/app/process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "tests/video/make_clip.h"
#include "video/read_clip.h"

namespace caption::test {
namespace {

// Where the tests are started with an ignored signal, as in the background of a script or under
// nohup, the program would ignore it, too, as it should, but tests send it these signals. A handler
// is not inherited by the program, which then begins with the default.
[[maybe_unused]] const bool kPassesDefaults = [] {
  for (const int signal : {SIGINT, SIGHUP}) {
    const auto before = std::signal(signal, [](int) {});
    if (before != SIG_IGN) std::signal(signal, before);
  }
  return true;
}();

// Runs in the child between fork() and exec().
[[noreturn]] void become_cli(const std::vector<std::string>& arguments) {
  std::vector<char*> argv = {const_cast<char*>(CAPTION_BINARY)};
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  // Digests of weights are stored here unless the test overrides it, not in the user's home.
  ::setenv("XDG_CACHE_HOME", CAPTION_TEST_TMP "/cache", 0);
  ::execv(CAPTION_BINARY, argv.data());
  ::_exit(127);
}

void redirect(const std::filesystem::path& path, int flags, int descriptor) {
  const int file = ::open(path.c_str(), flags, 0600);
  if (file < 0 || ::dup2(file, descriptor) < 0) ::_exit(126);
}

void redirect_to_unread_pipe(int descriptor) {
  int ends[2] = {-1, -1};
  if (::pipe(ends) != 0 || ::dup2(ends[1], descriptor) < 0) ::_exit(126);
  ::close(ends[0]);
  ::close(ends[1]);
}

[[noreturn]] void become_cli_in(const Surroundings& surroundings,
                                const std::vector<std::string>& arguments) {
  if (!surroundings.folder.empty() && ::chdir(surroundings.folder.c_str()) != 0) ::_exit(126);
  for (const auto& [name, value] : surroundings.environment) {
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  ::setenv("XDG_CACHE_HOME", CAPTION_TEST_TMP "/cache", 0);  // as in become_cli()
  ::alarm(surroundings.time_limit_s);
  // Prepared before the limits apply, which may prevent allocations.
  std::vector<char*> argv = {const_cast<char*>(CAPTION_BINARY)};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  for (const auto& [resource, value] : surroundings.limits) {
    const rlimit limit{.rlim_cur = value, .rlim_max = value};
    if (::setrlimit(resource, &limit) != 0) ::_exit(126);
  }
  for (const int descriptor : surroundings.closed_descriptors) ::close(descriptor);
  ::execv(CAPTION_BINARY, argv.data());
  ::_exit(127);
}

std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

Finished run_cli(const std::vector<std::string>& arguments, const std::string& input,
                 const Environment& environment) {
  const TemporaryFolder folder;
  write_text(folder.path() / "in", input);
  const pid_t child = ::fork();
  if (child == 0) {
    redirect(folder.path() / "in", O_RDONLY, STDIN_FILENO);
    redirect(folder.path() / "out", O_WRONLY | O_CREAT, STDOUT_FILENO);
    redirect(folder.path() / "err", O_WRONLY | O_CREAT, STDERR_FILENO);
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    become_cli(arguments);
  }
  Finished finished;
  finished.exit_code = wait_for(child);
  finished.out = read_text(folder.path() / "out");
  finished.err = read_text(folder.path() / "err");
  return finished;
}

Finished run_cli_in(const Surroundings& surroundings, const std::vector<std::string>& arguments) {
  const TemporaryFolder folder;
  const std::filesystem::path out =
      surroundings.out.empty() ? folder.path() / "out" : surroundings.out;
  // stderr is a pipe, which a limit on file sizes does not affect.
  int err[2] = {-1, -1};
  if (::pipe2(err, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    redirect("/dev/null", O_RDONLY, STDIN_FILENO);
    if (surroundings.nobody_reads_out) {
      redirect_to_unread_pipe(STDOUT_FILENO);
    } else {
      redirect(out, O_WRONLY | O_CREAT, STDOUT_FILENO);
    }
    if (::dup2(err[1], STDERR_FILENO) < 0) ::_exit(126);
    become_cli_in(surroundings, arguments);
  }
  ::close(err[1]);
  Finished finished;
  std::array<char, 4096> chunk{};
  for (ssize_t count = 0; (count = ::read(err[0], chunk.data(), chunk.size())) > 0;) {
    finished.err.append(chunk.data(), static_cast<std::size_t>(count));
  }
  ::close(err[0]);
  finished.exit_code = wait_for(child);
  if (surroundings.out.empty()) finished.out = read_text(out);
  return finished;
}

pid_t start_cli(const std::vector<std::string>& arguments,
                const std::filesystem::path& stderr_file) {
  const pid_t child = ::fork();
  if (child == 0) {
    redirect("/dev/null", O_RDONLY, STDIN_FILENO);
    redirect("/dev/null", O_WRONLY, STDOUT_FILENO);
    redirect(stderr_file, O_WRONLY | O_CREAT | O_APPEND, STDERR_FILENO);
    become_cli(arguments);
  }
  return child;
}

int wait_for(pid_t child) {
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) throw std::runtime_error("no child");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::vector<records::Record> parse_records(const std::string& text) {
  std::vector<records::Record> records;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) throw std::runtime_error("torn line: " + text.substr(begin));
    records.push_back(records::parse_json_line(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return records;
}

std::filesystem::path sample_video(const std::string& name) {
  return std::filesystem::path(CAPTION_SOURCE_DIR) / "samples/videos" / name;
}

std::vector<std::filesystem::path> sample_videos() { return files_in(sample_video("")); }

std::filesystem::path small_video(const std::string& name) {
  static const TemporaryFolder folder;
  static const bool is_made = [] {
    for (const std::filesystem::path& sample : sample_videos()) {
      constexpr int kHeightPx = 192;
      constexpr int kNumFrames = 16;
      video::ReadOptions options;
      options.sampling.num_frames = kNumFrames;
      const video::Clip clip = video::read_clip(sample, options);
      const video::Frame& first = clip.frames.front();
      make_clip(folder.path() / sample.filename(),
                {.encoder = "mpeg4",
                 .muxer = sample.extension() == ".mp4" ? "mp4" : "matroska",
                 .width_px = first.width_px * kHeightPx / first.height_px / 2 * 2,
                 .height_px = kHeightPx,
                 .num_frames = kNumFrames,
                 .pictures = &clip});
    }
    return true;
  }();
  return is_made ? folder.path() / name : std::filesystem::path();
}

std::vector<std::filesystem::path> small_videos() { return files_in(small_video("")); }

}  // namespace caption::test
