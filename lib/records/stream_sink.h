// records/stream_sink.h: records to a descriptor that is not ours to keep, such as stdout.
#pragma once

#include "records/format.h"
#include "records/sink.h"

namespace caption::records {

// Borrows `descriptor`. Each record is one write; nothing is buffered. The process must ignore
// SIGPIPE, or it ends at a closed pipe before append() can say so.
class StreamSink final : public RecordSink {
 public:
  StreamSink(int descriptor, Format format) : descriptor_(descriptor), format_(format) {}
  AppendResult append(const Record& record) override;

 private:
  int descriptor_;
  Format format_;
  bool header_written_ = false;
};

}  // namespace caption::records
