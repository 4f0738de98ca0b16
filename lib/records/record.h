// records/record.h: one clip's result, as one JSON line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace caption::records {

enum class Status { kOk, kTruncated, kLooped, kFailed };
std::string_view status_name(Status status);  // "ok", "truncated", "looped", "failed"
std::optional<Status> find_status(std::string_view name);

struct ErrorInfo {
  std::string code;     // error_code_name()
  std::string message;  // a sentence
};

// A token of the caption as text and its log-probability (natural logarithm), then the likeliest.
struct TokenLogprob {
  std::string token;  // bytes that are no character of their own become \xNN escapes
  double logprob = 0;
  std::vector<std::pair<std::string, double>> top;
};

struct Record {
  std::string video;  // the path as given (valid UTF-8; bytes that are not become \xNN escapes)
  std::string prompt = {};  // the name of the prompt it answers; empty when it has none
  double window_begin_s = 0;
  double window_end_s = 0;
  std::string caption;
  Status status = Status::kOk;
  std::optional<ErrorInfo> error;  // set exactly when status is kFailed
  std::int64_t frames_wanted = 0;
  std::int64_t frames_used = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t vision_tokens = 0;
  std::int64_t output_tokens = 0;
  double decode_ms = 0;
  double vision_ms = 0;
  double first_token_ms = 0;
  double total_ms = 0;
  std::string finish_reason;  // "stop", "length", "loop"; empty when failed
  std::vector<std::string> warnings;
  std::vector<TokenLogprob> logprobs = {};  // by output token, when asked for
};

// One line without its newline; keys in a fixed order; UTF-8 unescaped. `prompt` and `logprobs` are
// there only when they are not empty.
std::string to_json_line(const Record& record);
// All but the log-probabilities. Throws Error(kBadReference) saying which key is missing or wrong.
Record parse_json_line(std::string_view line);

}  // namespace caption::records
