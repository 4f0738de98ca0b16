#include "record_log.h"

#include "base/counted.h"
#include "base/json.h"
#include "base/log.h"

namespace caption::cli {
namespace {

std::string ms(double value) { return json_number(value, value < 10 ? 2 : 0) + " ms"; }

}  // namespace

std::string describe_record(const records::Record& record) {
  std::string out = record.video;
  if (!record.prompt.empty()) out += ", prompt " + record.prompt;
  out += ": " + std::string(records::status_name(record.status));
  if (record.error.has_value()) return out + " (" + record.error->code + ")";
  if (!record.reason.empty()) out += " (" + record.reason + ")";
  if (!record.moved_from.empty()) return out + ", carried over from " + record.moved_from;
  if (!record.copy_of.empty()) return out + ", as " + record.copy_of;
  return out + ", " + counted(record.output_tokens, "token") + " in " + ms(record.total_ms);
}

std::string describe_record_times(const records::Record& record) {
  return record.video + ": decode " + ms(record.decode_ms) + ", vision " + ms(record.vision_ms) +
         ", first token " + ms(record.first_token_ms) + "; " + std::to_string(record.frames_used) +
         " of " + counted(record.frames_wanted, "frame") + "; " +
         counted(record.prompt_tokens, "prompt token") + ", " +
         std::to_string(record.vision_tokens) + " of them vision";
}

std::string describe_doubt(const records::Record& record) {
  if (record.status == records::Status::kSuspicious) {
    return record.video + ": the caption is suspicious: " + record.reason;
  }
  if (record.status == records::Status::kTruncated) {
    return record.video + ": the caption is truncated after " +
           counted(record.output_tokens, "token") + ": --max-new-tokens allows a longer one";
  }
  return {};
}

records::AppendResult RecordLog::append(const records::Record& record) {
  const records::AppendResult result = sink_.append(record);
  last_doubt_ = describe_doubt(record);
  // Texts are formatted only if they will be logged.
  if (log_level() <= LogLevel::kDetail) log_detail("run", describe_record(record));
  const bool is_computed = !record.error.has_value() && record.copy_of.empty();
  if (log_level() <= LogLevel::kDebug && is_computed) {
    log_debug("run", describe_record_times(record));
  }
  return result;
}

}  // namespace caption::cli
