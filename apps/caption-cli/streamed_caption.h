// apps/caption-cli/streamed_caption.h: a caption alone on standard output, as it is generated.
#pragma once

#include <atomic>
#include <string_view>

namespace caption::cli {

// Not thread-safe.
class StreamedCaption {
 public:
  // `stop` is set when standard output cannot be written.
  explicit StreamedCaption(std::atomic<bool>& stop) : stop_(stop) {}

  void write(std::string_view text);

  // Ends the line, if one was begun. Returns false when the reader has closed stdout; throws
  // Error(kIo) when writing failed for another reason.
  bool end();

 private:
  std::atomic<bool>& stop_;
  bool has_begun_ = false;
  int error_ = 0;  // errno of the first failed write
};

}  // namespace caption::cli
