// records/sink.h: where finished records go: a durable file, or a stream.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "records/record.h"

namespace caption::records {

enum class AppendResult {
  kWritten,
  kKept,        // the earlier record of this clip is better and stays; nothing was written
  kReaderGone,  // the pipe's reader has closed it: nobody wants more
};

// Which clip: the content, and the place where it lies.
struct ClipIdentity {
  ClipFile file;
  std::string id = {};  // as Record::id; empty: size and time stand for the content
};

// What is known of a clip and a prompt before they are captioned.
struct Earlier {
  enum class Kind {
    kNone,       // nothing: make it
    kFinished,   // its record is there, with `status`
    kElsewhere,  // a file of the same content has its record: append `record`, nothing to compute
  };
  Kind kind = Kind::kNone;
  Status status = Status::kOk;
  std::optional<Record> record = std::nullopt;
  // With kNone: file.path of a record of this content whose file is gone, and which must be made
  // again. The new record is to carry it as `moved_from`.
  std::string moved_from = {};
};

class RecordSink {
 public:
  virtual ~RecordSink() = default;

  // `video` is the path as given, for the record that may come back. Thread-safe.
  virtual Earlier find(const ClipIdentity& /*clip*/, const std::string& /*video*/,
                       std::string_view /*prompt*/) {
    return {};
  }
  // One thread at a time. Throws Error(kIo) with the system's reason.
  virtual AppendResult append(const Record& record) = 0;
};

}  // namespace caption::records
