// apps/caption-cli/record_log.h: log lines about each clip for -v and -vv, and for --stream.
#pragma once

#include <string>

#include "records/sink.h"

namespace caption::cli {

// Returns text such as "clips/a.mp4: ok, 48 tokens in 268 ms", with the prompt's name if it has one
// and the error of a failed clip.
std::string describe_record(const records::Record& record);
// Returns text such as "clips/a.mp4: decode 176 ms, vision 39 ms, first token 2.75 ms; 8 of 8
// frames; 141 prompt tokens, 128 of them vision".
std::string describe_record_times(const records::Record& record);

// Returns the warning about a caption: "clips/a.mp4: the caption is suspicious: it repeats ...".
// Empty for a record that is ok, and for a failed one, which the pipeline reports.
std::string describe_doubt(const records::Record& record);

// Passes records to the borrowed `sink` and logs one line for each at LogLevel::kDetail and its
// times at kDebug. As thread-safe as the sink.
class RecordLog final : public records::RecordSink {
 public:
  explicit RecordLog(records::RecordSink& sink) : sink_(sink) {}

  records::Earlier find(const records::ClipIdentity& clip, const std::string& video,
                        std::string_view prompt) override {
    return sink_.find(clip, video, prompt);
  }
  records::AppendResult append(const records::Record& record) override;

  // Returns describe_doubt() of the last record.
  const std::string& last_doubt() const { return last_doubt_; }

 private:
  records::RecordSink& sink_;
  std::string last_doubt_;
};

}  // namespace caption::cli
