#include "records/stream_sink.h"

#include <cerrno>
#include <cstring>
#include <string>

#include "base/error.h"
#include "records/internal/file_system.h"

namespace caption::records {

AppendResult StreamSink::append(const Record& record) {
  std::string text = header_written_ ? std::string() : format_header(format_);
  text += format_record(format_, record);
  header_written_ = true;
  const int error = write_whole(descriptor_, text);
  if (error == EPIPE) return AppendResult::kReaderGone;
  if (error != 0) {
    throw Error(ErrorCode::kIo,
                std::string("standard output: cannot write: ") + std::strerror(error));
  }
  return AppendResult::kWritten;
}

}  // namespace caption::records
