// records/sink.h: where finished records go: a durable file, or a stream.
#pragma once

#include "records/record.h"

namespace caption::records {

enum class AppendResult {
  kWritten,
  kReaderGone,  // the pipe's reader has closed it: nobody wants more
};

// One thread at a time.
class RecordSink {
 public:
  virtual ~RecordSink() = default;
  // Throws Error(kIo) with the system's reason.
  virtual AppendResult append(const Record& record) = 0;
};

}  // namespace caption::records
