// records/record.h: the result for one clip and prompt, stored as one JSON line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace caption::records {

// Statuses in order from best to worst; the order is used for comparison.
enum class Status {
  kOk,
  kTruncated,   // cut by max_new_tokens
  kSuspicious,  // `reason` says why the caption is suspect
  kFailed,      // `error` says why there is no caption
};
// Returns "ok", "truncated", "suspicious" or "failed".
std::string_view status_name(Status status);
// All names, for error messages.
inline constexpr std::string_view kStatusNames = "ok, truncated, suspicious, failed";
std::optional<Status> find_status(std::string_view name);

// The `reason` of a caption that the engine ended because the same words were repeated.
inline constexpr std::string_view kLoopReason = "the caption repeats itself without end";

struct ErrorInfo {
  std::string code;     // error_code_name()
  std::string message;  // a sentence
};

// One token of the caption with its log-probability (natural logarithm) and the most likely tokens.
struct TokenLogprob {
  std::string token;  // bytes that are not a complete character become \xNN escapes
  double logprob = 0;
  std::vector<std::pair<std::string, double>> top;
};

// The file that a record describes, with its state at the time of reading.
struct ClipFile {
  std::string path;  // absolute; escaped as Record::video
  // Absent when the file could not be opened.
  std::optional<std::int64_t> size_bytes = std::nullopt;
  std::optional<std::int64_t> modified_ns = std::nullopt;  // since 1970-01-01 UTC
  friend bool operator==(const ClipFile&, const ClipFile&) = default;
};

// How many tokens of a caption were guessed before the model chose them.
struct Speculation {
  struct Source {
    std::string name;           // drafts::guess_source_name(): "archive", "ngram", ...
    std::int64_t computed = 0;  // guesses that the model was asked about
    std::int64_t accepted = 0;  // of these, guesses that it chose
  };
  std::int64_t steps = 0;  // steps of the engine in which the caption got a token
  std::vector<Source> sources = {};
};

struct Record {
  std::string video;  // the path as given, as UTF-8; other bytes are escaped (file_name.h)
  // SHA-256 of the file's content, 64 digits; empty when the file was not read completely
  // (--trust-times, or a file that cannot be read).
  std::string id = {};
  std::optional<ClipFile> file = std::nullopt;  // absent in records of version 0.1
  // `file.path` of another file with the same content, whose caption this is; else empty. That file
  // was captioned itself: its record is no copy.
  std::string copy_of = {};
  // Previous `file.path` of a clip that was moved: this record replaces the record there. Else
  // empty.
  std::string moved_from = {};
  std::string prompt = {};  // name of the prompt; empty when the prompt has none
  // Name of the adapter that the clip or the prompt chose; empty when none was chosen.
  std::string adapter = {};
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
  double engine_ms = 0;  // this record's share of the engine's time; 0: unknown
  double total_ms = 0;
  std::optional<Speculation> speculation = std::nullopt;  // if the caption's run had drafts
  std::string finish_reason;  // "stop", "length", "loop"; empty when failed
  std::vector<std::string> warnings;
  std::string settings = {};                // settings_key() of the manifest of the run
  std::vector<TokenLogprob> logprobs = {};  // one per output token, if requested
  // The log-probabilities of a record that was read, as JSON, so that they can be written again.
  std::string logprobs_json = {};
};

// The captions of one clip are told apart by prompt and adapter. Returns the key of the two: the
// prompt's name alone if there is no adapter.
std::string caption_key(std::string_view prompt, std::string_view adapter);
inline std::string caption_key(const Record& record) {
  return caption_key(record.prompt, record.adapter);
}

// Returns one line without its newline; keys in a fixed order; UTF-8 is not escaped. Optional keys
// whose value is empty or absent are omitted.
std::string to_json_line(const Record& record);
// The log-probabilities are kept as JSON; unknown keys are ignored. Counts may be written as 8.0,
// and the digits of an id in capitals, as other programs do that read and write records. Throws
// Error(kBadReference) naming the key that is missing or wrong.
Record parse_json_line(std::string_view line);

}  // namespace caption::records
