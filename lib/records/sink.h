// records/sink.h: the interface to which finished records are passed (a durable file or a stream).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "records/record.h"

namespace caption::records {

enum class AppendResult {
  kWritten,
  kKept,        // an earlier record of this clip is better; nothing was written
  kReaderGone,  // the reader of the pipe has closed it; no further record can be written
};

// Identifies a clip by its content and its path.
struct ClipIdentity {
  ClipFile file;
  std::string id = {};  // as Record::id; if empty, size and time identify the content
};

// What is known about a clip's caption before captioning.
struct Earlier {
  enum class Kind {
    kNone,       // nothing is known; the clip must be captioned
    kFinished,   // the clip has a record with `status`
    kElsewhere,  // a file of the same content has a record; append `record` without computing
  };
  Kind kind = Kind::kNone;
  Status status = Status::kOk;
  std::optional<Record> record = std::nullopt;
  // With kNone: `file.path` of a record of this content whose file no longer exists and whose
  // caption must be made again. The new record must carry this path as `moved_from`.
  std::string moved_from = {};
};

class RecordSink {
 public:
  virtual ~RecordSink() = default;

  // `video` is the path as given, for the record that may be returned; `caption` is the
  // caption_key() of prompt and adapter. Thread-safe.
  virtual Earlier find(const ClipIdentity& /*clip*/, const std::string& /*video*/,
                       std::string_view /*caption*/) {
    return {};
  }
  // Only one thread at a time may call append(). Throws Error(kIo or kOutOfMemory) with the
  // system's reason.
  virtual AppendResult append(const Record& record) = 0;
};

}  // namespace caption::records
