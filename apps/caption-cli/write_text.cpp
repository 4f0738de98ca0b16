#include "write_text.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>

#include "base/error.h"
#include "base/open_file.h"
#include "records/file_name.h"

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

void require_replaceable(const std::string& path, std::string_view begin,
                         const std::vector<std::string>& inputs) {
  if (path.empty() || path == "-") return;
  const std::optional<FileStamp> there = stamp_of(path);
  if (!there.has_value()) return;
  for (const std::string& input : inputs) {
    const std::optional<FileStamp> read = stamp_of(input);
    if (read.has_value() && read->device == there->device && read->inode == there->inode) {
      throw Error(ErrorCode::kUsage, records::escape_file_name(path) + ": is read as " +
                                         records::escape_file_name(input) +
                                         " and would be overwritten; name another file");
    }
  }
  if (!std::filesystem::is_regular_file(path)) return;  // a device or a FIFO
  std::string head(begin.size(), '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(head.data(), std::ssize(head));
  head.resize(static_cast<std::size_t>(file.gcount()));
  if (head.empty() || head == begin) return;
  throw Error(ErrorCode::kUsage, records::escape_file_name(path) +
                                     ": holds something else and is not overwritten; name another "
                                     "file, or remove it");
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
