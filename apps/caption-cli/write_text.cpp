#include "write_text.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iostream>

#include "base/error.h"

namespace caption::cli {

void write_text(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::cout << text;
    return flush_stdout();
  }
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text << std::flush;
  if (file) return;
  const std::string reason = errno == 0 ? std::string() : ": " + describe_errno(errno);
  throw Error(ErrorCode::kIo, path + ": cannot write" + reason);
}

void flush_stdout() {
  errno = 0;
  std::cout.flush();
  if (std::cout) return;
  const std::string reason = errno == 0 ? std::string() : ": " + describe_errno(errno);
  throw Error(ErrorCode::kIo, "standard output: cannot write" + reason);
}

bool stdout_reader_is_gone() {
  pollfd reader{.fd = STDOUT_FILENO, .events = 0, .revents = 0};
  return ::poll(&reader, 1, 0) == 1 && (reader.revents & (POLLERR | POLLHUP)) != 0;
}

}  // namespace caption::cli
