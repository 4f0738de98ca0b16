// records/record.h: one clip's result, as one JSON line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace caption::records {

// The values are ordered from the best to the worst.
enum class Status {
  kOk,
  kTruncated,   // cut by max_new_tokens
  kSuspicious,  // `reason` says what speaks against the caption
  kFailed,      // `error` says why there is no caption
};
// "ok", "truncated", "suspicious", "failed"
std::string_view status_name(Status status);
// The names, for messages.
inline constexpr std::string_view kStatusNames = "ok, truncated, suspicious, failed";
std::optional<Status> find_status(std::string_view name);

// The `reason` of a caption that the engine ended because the same words came again and again.
inline constexpr std::string_view kLoopReason = "the caption repeats itself without end";

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

// The file that a record is about, as it was when it was read.
struct ClipFile {
  std::string path;  // absolute; escaped as Record::video
  // Absent when the file could not be opened.
  std::optional<std::int64_t> size_bytes = std::nullopt;
  std::optional<std::int64_t> modified_ns = std::nullopt;  // since 1970
  friend bool operator==(const ClipFile&, const ClipFile&) = default;
};

struct Record {
  std::string video;  // the path as given (valid UTF-8; bytes that are not become \xNN escapes)
  // SHA-256 of the file's content, 64 digits; empty when it was not read whole (--trust-times, or
  // a file that cannot be read).
  std::string id = {};
  std::optional<ClipFile> file = std::nullopt;  // absent in records of version 0.1
  // `file.path` of another file with the same content, whose caption this is; empty: its own.
  std::string copy_of = {};
  // `file.path` that the clip had before: this record takes the place of that one. Empty: none.
  std::string moved_from = {};
  std::string prompt = {};  // the name of the prompt it answers; empty when it has none
  double window_begin_s = 0;
  double window_end_s = 0;
  std::string caption;
  Status status = Status::kOk;
  std::string reason = {};         // set exactly when status is kSuspicious
  std::optional<ErrorInfo> error;  // set exactly when status is kFailed
  std::int64_t frames_wanted = 0;
  std::int64_t frames_used = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t vision_tokens = 0;
  std::int64_t output_tokens = 0;
  double decode_ms = 0;
  double vision_ms = 0;
  double first_token_ms = 0;
  double engine_ms = 0;  // its share of the engine's time; 0: not known
  double total_ms = 0;
  std::string finish_reason;  // "stop", "length", "loop"; empty when failed
  std::vector<std::string> warnings;
  std::string settings = {};                // settings_key() of the manifest that it was made under
  std::vector<TokenLogprob> logprobs = {};  // by output token, when asked for
  // The JSON of the log-probabilities of a record that was read, for writing it again.
  std::string logprobs_json = {};
};

// One line without its newline; keys in a fixed order; UTF-8 unescaped. Keys whose value is empty
// or absent are left out.
std::string to_json_line(const Record& record);
// The log-probabilities stay JSON; unknown keys are passed over. Throws Error(kBadReference) saying
// which key is missing or wrong.
Record parse_json_line(std::string_view line);

}  // namespace caption::records
