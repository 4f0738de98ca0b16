// records/stream_sink.h: records to a descriptor that is not ours to keep, such as stdout.
#pragma once

#include <memory>
#include <string>

#include "records/format.h"
#include "records/sink.h"

namespace caption::records {

class RunMemory;

// Borrows `descriptor`. Each record is one write; nothing is buffered. The process must ignore
// SIGPIPE, or it ends at a closed pipe before append() can say so.
class StreamSink final : public RecordSink {
 public:
  // `settings`: settings_key() of the run's manifest.
  StreamSink(int descriptor, Format format, std::string settings);
  ~StreamSink() override;
  // Finds captions of this run, and not all of them when there are many.
  Earlier find(const ClipIdentity& clip, const std::string& video,
               std::string_view prompt) override;
  AppendResult append(const Record& record) override;

 private:
  int descriptor_;
  Format format_;
  std::string settings_;
  std::unique_ptr<RunMemory> memory_;
  bool header_written_ = false;
};

}  // namespace caption::records
