// Reads lists of paths from other programs: one path per line, or each terminated by NUL.
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "base/error.h"
#include "base/open_file.h"
#include "base/utf8.h"
#include "pipeline/find_videos.h"

namespace caption::pipeline {
namespace {

constexpr std::size_t kReadBytes = 64u << 10;
constexpr std::size_t kMaxPathBytes = 1u << 20;

// Returns the number of bytes read; 0 at the end of the list.
std::size_t read_some(const PathList& list, const std::atomic<bool>* cancelled,
                      std::vector<char>& buffer) {
  constexpr int kBetweenLooksMs = 100;
  for (;;) {
    if (cancelled != nullptr && cancelled->load()) {
      throw Error(ErrorCode::kCancelled,
                  list.name + ": interrupted while the list of paths was read; nothing was done");
    }
    // A signal handler may have SA_RESTART, so that read() would go on waiting.
    pollfd readable{.fd = list.descriptor, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&readable, 1, cancelled == nullptr ? -1 : kBetweenLooksMs);
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    const ssize_t count = ::read(list.descriptor, buffer.data(), buffer.size());
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
      const bool lacks_memory = error_code_of_errno(errno) == ErrorCode::kOutOfMemory;
      throw Error(lacks_memory ? ErrorCode::kOutOfMemory : ErrorCode::kUsage,
                  list.name + ": cannot read the list of paths: " + describe_errno(errno));
    }
  }
}

// Splits the bytes of the list into paths.
class PathSplitter {
 public:
  PathSplitter(const PathList& list,
               const std::function<void(std::string_view, std::int64_t)>& visit)
      : list_(list), visit_(visit) {}

  void take(std::string_view bytes) {
    for (;;) {
      const std::size_t end = bytes.find(list_.separator);
      path_ += bytes.substr(0, end);
      if (path_.size() > kMaxPathBytes) {
        throw Error(ErrorCode::kUsage,
                    where() + " has more than 1 MiB, so it is no path; is this a list?");
      }
      if (end == std::string_view::npos) return;
      finish_path();
      bytes.remove_prefix(end + 1);
    }
  }

  void finish_path() {
    std::string_view path = path_;
    if (list_.separator == '\n') {
      if (num_paths_ == 0) path = without_byte_order_mark(path);
      if (path.ends_with('\r')) path.remove_suffix(1);
      if (path.find('\0') != std::string_view::npos) {
        throw Error(ErrorCode::kUsage,
                    where() +
                        " holds a NUL byte; -0 is for paths that end in NUL bytes, and text "
                        "in UTF-16 must become UTF-8");
      }
    }
    const bool is_blank =
        list_.separator == '\n' && path.find_first_not_of(" \t") == std::string_view::npos;
    if (!path.empty() && !is_blank) visit_(path, num_paths_ + 1);
    path_.clear();
    ++num_paths_;
  }

  // The last path may lack its separator.
  void finish_list() {
    const bool is_lines = list_.separator == '\0' && path_.find('\n') != std::string::npos;
    if (is_lines && !is_present(path_)) {
      throw Error(ErrorCode::kUsage, list_.name +
                                         ": its paths end in line ends and not in NUL bytes, as -0 "
                                         "says; leave out -0");
    }
    finish_path();
  }

 private:
  std::string where() const { return list_.name + ": line " + std::to_string(num_paths_ + 1); }

  const PathList& list_;
  const std::function<void(std::string_view, std::int64_t)>& visit_;
  std::string path_;
  std::int64_t num_paths_ = 0;  // including empty paths
};

}  // namespace

void read_path_list(const PathList& list,
                    const std::function<void(std::string_view, std::int64_t)>& visit,
                    const std::atomic<bool>* cancelled) {
  PathSplitter splitter(list, visit);
  std::vector<char> buffer(kReadBytes);
  while (const std::size_t count = read_some(list, cancelled, buffer)) {
    splitter.take({buffer.data(), count});
  }
  splitter.finish_list();
}

}  // namespace caption::pipeline
