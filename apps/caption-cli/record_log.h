// apps/caption-cli/record_log.h: what -v and -vv say of each clip, and --stream of its one.
#pragma once

#include <string>

#include "records/sink.h"

namespace caption::cli {

// "clips/a.mp4: ok, 48 tokens in 268 ms"; with the prompt's name where it has one, and the error of
// a clip that failed.
std::string describe_record(const records::Record& record);
// "clips/a.mp4: decode 176 ms, vision 39 ms, first token 2.75 ms; 8 of 8 frames; 141 prompt tokens,
// 128 of them vision"
std::string describe_record_times(const records::Record& record);

// Why a caption is to be read with care: "clips/a.mp4: the caption is suspicious: it repeats ...".
// Empty for a record that is ok, or failed: of failures the pipeline speaks.
std::string describe_doubt(const records::Record& record);

// Passes records on to `sink`, which it borrows, and logs them: a line at LogLevel::kDetail, and
// its times at kDebug. Thread-safe as the sink is.
class RecordLog final : public records::RecordSink {
 public:
  explicit RecordLog(records::RecordSink& sink) : sink_(sink) {}

  records::Earlier find(const records::ClipIdentity& clip, const std::string& video,
                        std::string_view prompt) override {
    return sink_.find(clip, video, prompt);
  }
  records::AppendResult append(const records::Record& record) override;

  // describe_doubt() of the last record.
  const std::string& last_doubt() const { return last_doubt_; }

 private:
  records::RecordSink& sink_;
  std::string last_doubt_;
};

}  // namespace caption::cli
