#include "records/stream_sink.h"

#include <cerrno>
#include <string>
#include <utility>

#include "base/durable_file.h"
#include "base/error.h"
#include "records/internal/run_memory.h"

namespace caption::records {

StreamSink::StreamSink(int descriptor, Format format, std::string settings)
    : descriptor_(descriptor),
      format_(format),
      settings_(std::move(settings)),
      memory_(std::make_unique<RunMemory>()) {}

StreamSink::~StreamSink() = default;

Earlier StreamSink::find(const ClipIdentity& clip, const std::string& video,
                         std::string_view caption) {
  return memory_->find(clip, video, caption);
}

AppendResult StreamSink::append(const Record& given) {
  Record record = given;
  record.settings = settings_;
  std::string text = header_written_ ? std::string() : format_header(format_);
  text += format_record(format_, record);
  header_written_ = true;
  const int error = write_whole(descriptor_, text);
  if (error == EPIPE) return AppendResult::kReaderGone;
  if (error != 0) {
    throw Error(output_error_code(error),
                "standard output: cannot write: " + describe_errno(error));
  }
  memory_->add(record);
  return AppendResult::kWritten;
}

}  // namespace caption::records
