#include "streamed_caption.h"

#include <cerrno>
#include <iostream>

#include "base/error.h"
#include "stdout_buffer.h"

namespace caption::cli {

void StreamedCaption::write(std::string_view text) {
  has_begun_ = true;
  if (std::cout << text << std::flush) return;
  if (error_ == 0) error_ = stdout_error();
  stop_.store(true);
}

bool StreamedCaption::end() {
  if (has_begun_) write("\n");
  std::cout.clear();
  if (error_ == 0 || error_ == EPIPE) return error_ == 0;
  throw Error(ErrorCode::kIo, "standard output: cannot write: " + describe_errno(error_));
}

}  // namespace caption::cli
