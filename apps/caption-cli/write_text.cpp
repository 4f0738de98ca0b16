#include "write_text.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <system_error>

#include "base/durable_file.h"
#include "base/error.h"
#include "base/file_descriptor.h"
#include "base/open_file.h"
#include "records/file_name.h"
#include "stdout_buffer.h"

namespace caption::cli {
namespace {

// Whether a new file can take the place of what is at `path`, if there is anything: it is a regular
// file, in a folder in which files can be made, and not mounted by itself, as a container's may be.
bool can_be_replaced(const std::filesystem::path& path) {
  const std::filesystem::path parent = path.parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  if (::access(folder.c_str(), W_OK | X_OK) != 0) return false;
  struct statx status {};
  if (::statx(AT_FDCWD, path.c_str(), 0, STATX_TYPE, &status) != 0) return true;
  return S_ISREG(status.stx_mode) && (status.stx_attributes & STATX_ATTR_MOUNT_ROOT) == 0;
}

// Returns 0 or errno. Some file systems report only when a file is closed that it could not be
// written.
int write_in_place(const std::filesystem::path& path, const std::string& text) {
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (file.get() < 0) return errno;
  if (const int error = write_whole(file.get(), text); error != 0) return error;
  return ::close(file.release()) == 0 || errno == EINTR ? 0 : errno;
}

}  // namespace

void write_text(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::cout << text;
    return flush_stdout();
  }
  const std::filesystem::path real = real_path(path);
  if (can_be_replaced(real)) return write_file_atomically(real, text);
  if (const int error = write_in_place(real, text); error != 0) {
    throw Error(output_error_code(error), path + ": cannot write: " + describe_errno(error));
  }
}

namespace {

constexpr std::size_t kHeadBytes = 4096;
// References begin like scores of clips, but lack this key.
constexpr std::string_view kClipScoresKey = "\"status\": ";

// Throws Error(kIo) unless a file can be made in the folder of `path`.
void require_writable_folder(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string() + "/";
  if (::access(folder.c_str(), W_OK | X_OK) == 0) return;
  throw Error(ErrorCode::kIo, path + ": cannot write: " + describe_errno(errno) +
                                  "; name a file in another folder");
}

// A chart under the suffix of another kind is opened by no viewer.
void require_svg_name(const std::string& path) {
  const std::filesystem::path suffix = std::filesystem::path(path).extension();
  if (suffix.empty() || suffix == ".svg") return;
  throw Error(ErrorCode::kUsage, "--svg " + records::escape_file_name(path) +
                                     ": the chart is an SVG; give it a name in .svg");
}

}  // namespace

void require_replaceable(const std::string& path, std::string_view begin,
                         const std::vector<std::string>& inputs) {
  if (path.empty() || path == "-") return;
  if (begin == kSvgBegin) require_svg_name(path);
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder, ignored)) {
    throw Error(ErrorCode::kIo, records::escape_file_name(path) + ": cannot write: " +
                                    records::escape_file_name(folder.string()) +
                                    " is no folder; make it, or name another one");
  }
  for (const std::string& input : inputs) {
    if (is_same_file(input, path)) {
      throw Error(ErrorCode::kUsage, records::escape_file_name(path) + ": is read as " +
                                         records::escape_file_name(input) +
                                         " and would be overwritten; name another file");
    }
  }
  if (!std::filesystem::exists(path, ignored)) return require_writable_folder(path);
  if (!std::filesystem::is_regular_file(path, ignored)) return;  // a device or FIFO
  if (::access(path.c_str(), R_OK | W_OK) != 0) {
    throw Error(ErrorCode::kIo, records::escape_file_name(path) + ": cannot write: " +
                                    describe_errno(errno) + ", or name another file");
  }
  std::string head(kHeadBytes, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(head.data(), std::ssize(head));
  head.resize(static_cast<std::size_t>(file.gcount()));
  const std::string_view first_line = std::string_view(head).substr(0, head.find('\n'));
  const bool is_scores =
      begin != kClipScoresBegin || first_line.find(kClipScoresKey) != std::string_view::npos;
  const bool is_sheet = begin != kPngBegin || head.find(kSheetSoftware) != std::string::npos;
  if (head.empty() || (head.starts_with(begin) && is_scores && is_sheet)) return;
  throw Error(ErrorCode::kUsage, records::escape_file_name(path) +
                                     ": holds something else and is not overwritten; name another "
                                     "file, or remove it");
}

void require_two_files(const std::string& option, const std::string& path,
                       const std::string& other_option, const std::string& other_path) {
  if (path.empty() || other_path.empty()) return;
  const std::string both = option + " and " + other_option;
  if (path == "-" && other_path == "-") {
    throw Error(ErrorCode::kUsage, both + " cannot both go to stdout");
  }
  if (real_path(path) == real_path(other_path)) {
    throw Error(ErrorCode::kUsage, both + " name one file; give them two");
  }
}

void flush_stdout() {
  std::cout.flush();
  if (std::cout) return;
  throw Error(ErrorCode::kIo, "standard output: cannot write: " + describe_errno(stdout_error()));
}

bool stdout_reader_is_gone() {
  pollfd reader{.fd = STDOUT_FILENO, .events = 0, .revents = 0};
  return ::poll(&reader, 1, 0) == 1 && (reader.revents & (POLLERR | POLLHUP)) != 0;
}

}  // namespace caption::cli
