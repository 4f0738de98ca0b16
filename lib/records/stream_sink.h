// records/stream_sink.h: writes records to a borrowed descriptor such as stdout.
#pragma once

#include <memory>
#include <string>

#include "records/format.h"
#include "records/sink.h"

namespace caption::records {

class RunMemory;

// Does not close `descriptor`. Each record is one write; nothing is buffered. The process must
// ignore SIGPIPE; otherwise a closed pipe ends it before append() can return kReaderGone.
class StreamSink final : public RecordSink {
 public:
  // `settings`: settings_key() of the run's manifest.
  StreamSink(int descriptor, Format format, std::string settings);
  ~StreamSink() override;
  // Finds only captions of this run, and not all of them when there are many (run_memory.h).
  Earlier find(const ClipIdentity& clip, const std::string& video,
               std::string_view caption) override;
  AppendResult append(const Record& record) override;

 private:
  int descriptor_;
  Format format_;
  std::string settings_;
  std::unique_ptr<RunMemory> memory_;
  bool header_written_ = false;
};

}  // namespace caption::records
