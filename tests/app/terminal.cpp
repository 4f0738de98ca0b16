#include "tests/app/terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

namespace caption::test {
namespace {

[[noreturn]] void become_cli_on(const std::string& terminal,
                                const std::vector<std::string>& arguments,
                                const Environment& environment, OnTerminal streams) {
  ::setsid();
  const int slave = ::open(terminal.c_str(), O_RDWR);  // becomes the controlling terminal
  const int nothing = ::open("/dev/null", O_RDWR);
  if (slave < 0 || nothing < 0) ::_exit(126);
  const bool has_input = streams == OnTerminal::kAll;
  const bool has_output = streams != OnTerminal::kErrors;
  if (::dup2(has_input ? slave : nothing, STDIN_FILENO) < 0 ||
      ::dup2(has_output ? slave : nothing, STDOUT_FILENO) < 0 || ::dup2(slave, STDERR_FILENO) < 0) {
    ::_exit(126);
  }
  for (const char* variable : {"COLUMNS", "NO_COLOR", "TERM"}) ::unsetenv(variable);
  for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
  ::setenv("XDG_CACHE_HOME", CAPTION_TEST_TMP "/cache", 0);
  std::vector<char*> argv = {const_cast<char*>(CAPTION_BINARY)};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::execv(CAPTION_BINARY, argv.data());
  ::_exit(127);
}

std::string without_returns(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    out += text[i];
  }
  return out;
}

}  // namespace

Finished run_on_terminal(const std::vector<std::string>& arguments, unsigned short columns,
                         const Environment& environment, OnTerminal streams) {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (master < 0 || ::grantpt(master) != 0 || ::unlockpt(master) != 0) {
    throw std::runtime_error("no terminal");
  }
  winsize size{};
  size.ws_row = 24;
  size.ws_col = columns;
  const char* name = ::ptsname(master);
  if (name == nullptr || ::ioctl(master, TIOCSWINSZ, &size) != 0) {
    throw std::runtime_error("no terminal of that size");
  }
  const std::string terminal = name;
  const pid_t child = ::fork();
  if (child == 0) become_cli_on(terminal, arguments, environment, streams);
  // Kept open while reading, because a master whose last slave is closed loses unread data.
  const int slave = ::open(terminal.c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC);
  std::string text;
  Finished finished;
  ::fcntl(master, F_SETFL, O_NONBLOCK);
  for (bool has_ended = false;;) {
    std::array<char, 4096> chunk{};
    const ssize_t count = ::read(master, chunk.data(), chunk.size());
    if (count > 0) {
      text.append(chunk.data(), static_cast<std::size_t>(count));
    } else if (has_ended) {
      break;
    } else {
      int status = 0;
      if (::waitpid(child, &status, WNOHANG) == child) {
        finished.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        has_ended = true;
      } else {
        ::usleep(2000);
      }
    }
  }
  ::close(slave);
  ::close(master);
  finished.out = without_returns(text);
  return finished;
}

bool has_program(const std::string& name) {
  return run_shell("command -v " + name + " >/dev/null").exit_code == 0;
}

Finished run_shell(const std::string& line) {
  Finished finished;
  std::FILE* pipe = ::popen(("exec 2>&1; " + line).c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("no shell");
  std::array<char, 4096> chunk{};
  while (const std::size_t count = std::fread(chunk.data(), 1, chunk.size(), pipe)) {
    finished.out.append(chunk.data(), count);
  }
  const int status = ::pclose(pipe);
  finished.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return finished;
}

}  // namespace caption::test
