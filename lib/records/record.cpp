#include "records/record.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <limits>
#include <utility>

#include "base/ascii.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/json.h"
#include "base/sha256.h"

namespace caption::records {
namespace {

constexpr std::array kStatuses = {Status::kOk, Status::kTruncated, Status::kSuspicious,
                                  Status::kFailed};
// Version 0.1 wrote this status for captions that repeat themselves without end.
constexpr std::string_view kLooped = "looped";
// Milliseconds and window seconds are written with a resolution of one microsecond.
constexpr int kMsDecimals = 3;
constexpr int kSecondsDecimals = 6;
constexpr int kLogprobDecimals = 6;
constexpr std::int64_t kNsPerSecond = 1'000'000'000;
constexpr std::string_view kLogprobs = "\"logprobs\"";

std::string ms(double value) { return json_number(value, kMsDecimals); }
std::string seconds(double value) { return json_number(value, kSecondsDecimals); }

// Takes 8.0 for 8, which programs write that read every number as a float.
std::int64_t require_count(const JsonObject& object, std::string_view key) {
  try {
    return object.require_int(key, 0, std::numeric_limits<std::int64_t>::max());
  } catch (const Error&) {
    constexpr double kMostExact = 1LL << 53;
    double number = -1;
    try {
      number = object.get_double(key, -1);
    } catch (const Error&) {
      // The error of the integer says what is expected.
    }
    if (!(number >= 0 && number <= kMostExact) || number != std::floor(number)) throw;
    return static_cast<std::int64_t>(number);
  }
}

// The id of a clip in the digits that this program writes; any other text stays as it is.
std::string with_small_digits(std::string id) {
  std::string lower = to_lower_ascii(id);
  return parse_sha256(lower).has_value() ? lower : id;
}

double require_double(const JsonObject& object, std::string_view key) {
  if (!object.has(key)) {
    throw Error(ErrorCode::kBadReference,
                object.name() + ": " + std::string(key) + ": missing; expected a number");
  }
  return object.get_double(key, 0);
}

JsonObject require_object(const JsonObject& object, std::string_view key) {
  std::optional<JsonObject> child = object.get_object(key);
  if (!child) {
    throw Error(ErrorCode::kBadReference,
                object.name() + ": " + std::string(key) + ": missing; expected an object");
  }
  return *std::move(child);
}

Status parse_status(const JsonObject& object) {
  const std::string name = object.require_string("status");
  if (name == kLooped) return Status::kSuspicious;
  if (const std::optional<Status> status = find_status(name)) return *status;
  throw Error(ErrorCode::kBadReference, object.name() + ": status: " + json_quote(name) +
                                            " is none of " + std::string(kStatusNames));
}

std::string to_json(const std::vector<TokenLogprob>& logprobs) {
  double sum = 0;
  for (const TokenLogprob& token : logprobs) sum += token.logprob;
  std::string out =
      "{\"mean\":" + json_number(sum / static_cast<double>(logprobs.size()), kLogprobDecimals) +
      ",\"tokens\":[";
  const char* separator = "";
  for (const TokenLogprob& token : logprobs) {
    out += separator;
    separator = ",";
    out += "{\"token\":" + json_quote(token.token);
    out += ",\"logprob\":" + json_number(token.logprob, kLogprobDecimals);
    if (!token.top.empty()) {
      out += ",\"top\":[";
      for (std::size_t i = 0; i < token.top.size(); ++i) {
        if (i > 0) out += ',';
        out += "[" + json_quote(token.top[i].first) + "," +
               json_number(token.top[i].second, kLogprobDecimals) + "]";
      }
      out += "]";
    }
    out += "}";
  }
  return out + "]}";
}

std::string to_json(const Speculation& speculation) {
  std::string out = "{\"steps\":" + std::to_string(speculation.steps) + ",\"drafts\":{";
  const char* separator = "";
  for (const Speculation::Source& source : speculation.sources) {
    out += separator + json_quote(source.name);
    out += ":{\"computed\":" + std::to_string(source.computed);
    out += ",\"accepted\":" + std::to_string(source.accepted) + "}";
    separator = ",";
  }
  return out + "}}";
}

Speculation parse_speculation(const JsonObject& object) {
  Speculation speculation{.steps = require_count(object, "steps")};
  const JsonObject drafts = require_object(object, "drafts");
  for (const std::string& name : drafts.keys()) {
    const JsonObject source = require_object(drafts, name);
    speculation.sources.push_back({.name = name,
                                   .computed = require_count(source, "computed"),
                                   .accepted = require_count(source, "accepted")});
  }
  return speculation;
}

// The index behind the string that begins at `at`, in valid JSON.
std::size_t end_of_string(std::string_view json, std::size_t at) {
  for (++at; json[at] != '"'; ++at) {
    if (json[at] == '\\') ++at;
  }
  return at + 1;
}

// The index behind the object that begins at `at`, in valid JSON.
std::size_t end_of_object(std::string_view json, std::size_t at) {
  int depth = 0;
  do {
    if (json[at] == '"') {
      at = end_of_string(json, at);
      continue;
    }
    if (json[at] == '{') ++depth;
    if (json[at] == '}') --depth;
    ++at;
  } while (depth > 0);
  return at;
}

// The text of the object under a key of the root, which is an object of valid JSON; empty where
// there is none. `key` has its quotation marks.
std::string_view find_object(std::string_view json, std::string_view key) {
  constexpr std::string_view kSpace = " \t\r\n";
  for (std::size_t at = json.find('{') + 1; at < json.size();) {
    if (json[at] == '{') {
      at = end_of_object(json, at);
      continue;
    }
    if (json[at] != '"') {
      ++at;
      continue;
    }
    const std::string_view text = json.substr(at, end_of_string(json, at) - at);
    at += text.size();
    const std::size_t colon = json.find_first_not_of(kSpace, at);
    if (text != key || json[colon] != ':') continue;
    const std::size_t value = json.find_first_not_of(kSpace, colon + 1);
    if (json[value] != '{') return {};
    return json.substr(value, end_of_object(json, value) - value);
  }
  return {};
}

void append_text(std::string& out, const char* key, const std::string& value) {
  if (value.empty()) return;
  out += ",\"";
  out += key;
  out += "\":" + json_quote(value);
}

// Formats ISO 8601 in UTC with nanoseconds: "2026-11-22T01:02:03.000000004Z".
std::string time_text(std::int64_t ns) {
  std::int64_t fraction = ns % kNsPerSecond;
  std::time_t seconds_since_1970 = ns / kNsPerSecond;
  if (fraction < 0) {
    fraction += kNsPerSecond;
    --seconds_since_1970;
  }
  std::tm parts{};
  ::gmtime_r(&seconds_since_1970, &parts);
  std::array<char, 64> text{};
  const std::size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text.data() + size, text.size() - size, ".%09lldZ",
                static_cast<long long>(fraction));
  return text.data();
}

std::optional<std::int64_t> parse_time(const std::string& text) {
  std::tm parts{};
  const char* const rest = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  long long fraction = 0;
  int length = 0;
  if (rest == nullptr || std::sscanf(rest, ".%9lldZ%n", &fraction, &length) != 1 ||
      rest[length] != '\0') {
    return std::nullopt;
  }
  // Nanoseconds since 1970 in 64 bits end in the year 2262.
  constexpr std::int64_t kMostSeconds = std::numeric_limits<std::int64_t>::max() / kNsPerSecond - 1;
  const auto seconds = static_cast<std::int64_t>(::timegm(&parts));
  if (seconds > kMostSeconds || seconds < -kMostSeconds) return std::nullopt;
  const std::int64_t ns = seconds * kNsPerSecond + fraction;
  return time_text(ns) == text ? std::optional(ns) : std::nullopt;
}

std::string file_json(const ClipFile& file) {
  std::string out = "{\"path\":" + json_quote(file.path);
  if (file.size_bytes.has_value()) out += ",\"bytes\":" + std::to_string(*file.size_bytes);
  if (file.modified_ns.has_value()) {
    out += ",\"modified\":" + json_quote(time_text(*file.modified_ns));
  }
  return out + "}";
}

ClipFile parse_file(const JsonObject& object) {
  ClipFile file{.path = object.require_string("path")};
  if (object.has("bytes")) file.size_bytes = require_count(object, "bytes");
  if (!object.has("modified")) return file;
  const std::string modified = object.require_string("modified");
  file.modified_ns = parse_time(modified);
  if (!file.modified_ns.has_value()) {
    throw Error(ErrorCode::kBadReference,
                object.name() + ": modified: expected 2026-01-02T03:04:05.000000006Z, found " +
                    json_quote(modified));
  }
  return file;
}

void require_exactly_with(bool is_there, Status status, Status wanted, const char* key) {
  if (is_there == (status == wanted)) return;
  throw Error(ErrorCode::kBadReference, std::string("record: ") + key + ": belongs to status " +
                                            std::string(status_name(wanted)) +
                                            " and to no other; the status is " +
                                            std::string(status_name(status)));
}

}  // namespace

std::optional<Status> find_status(std::string_view name) {
  for (const Status status : kStatuses) {
    if (status_name(status) == name) return status;
  }
  return std::nullopt;
}

std::string_view status_name(Status status) {
  switch (status) {
    case Status::kOk: return "ok";
    case Status::kTruncated: return "truncated";
    case Status::kSuspicious: return "suspicious";
    case Status::kFailed: return "failed";
  }
  return "failed";
}

std::string caption_key(std::string_view prompt, std::string_view adapter) {
  std::string key(prompt);
  // A control character, which neither name holds.
  if (!adapter.empty()) key.append("\x1F").append(adapter);
  return key;
}

std::string to_json_line(const Record& record) {
  std::string out = "{\"video\":" + json_quote(record.video);
  append_text(out, "id", record.id);
  if (record.file.has_value()) out += ",\"file\":" + file_json(*record.file);
  append_text(out, "copy_of", record.copy_of);
  append_text(out, "moved_from", record.moved_from);
  if (!record.prompt.empty()) out += ",\"prompt\":" + json_quote(record.prompt);
  append_text(out, "adapter", record.adapter);
  out += ",\"window_s\":[" + seconds(record.window_begin_s) + "," + seconds(record.window_end_s);
  out += "],\"caption\":" + json_quote(record.caption);
  out += ",\"status\":" + json_quote(status_name(record.status));
  append_text(out, "reason", record.reason);
  if (record.error) {
    out += ",\"error\":{\"code\":" + json_quote(record.error->code);
    out += ",\"message\":" + json_quote(record.error->message) + "}";
  }
  out += ",\"frames\":{\"wanted\":" + std::to_string(record.frames_wanted);
  out += ",\"used\":" + std::to_string(record.frames_used);
  out += "},\"tokens\":{\"prompt\":" + std::to_string(record.prompt_tokens);
  out += ",\"vision\":" + std::to_string(record.vision_tokens);
  out += ",\"output\":" + std::to_string(record.output_tokens);
  out += "},\"timing_ms\":{\"decode\":" + ms(record.decode_ms);
  out += ",\"vision\":" + ms(record.vision_ms);
  out += ",\"first_token\":" + ms(record.first_token_ms);
  if (record.engine_ms > 0) out += ",\"engine\":" + ms(record.engine_ms);
  out += ",\"total\":" + ms(record.total_ms) + "}";
  if (record.speculation) out += ",\"speculation\":" + to_json(*record.speculation);
  out += ",\"finish_reason\":" + json_quote(record.finish_reason);
  if (!record.warnings.empty()) {
    out += ",\"warnings\":[";
    for (std::size_t i = 0; i < record.warnings.size(); ++i) {
      if (i > 0) out += ',';
      out += json_quote(record.warnings[i]);
    }
    out += "]";
  }
  append_text(out, "settings", record.settings);
  const std::string logprobs =
      record.logprobs.empty() ? record.logprobs_json : to_json(record.logprobs);
  if (!logprobs.empty()) out.append(",").append(kLogprobs).append(":").append(logprobs);
  return out + "}";
}

Record parse_json_line(std::string_view line) {
  const JsonObject root = JsonObject::parse(line, "record", ErrorCode::kBadReference);
  Record record;
  record.video = root.require_string("video");
  record.id = with_small_digits(root.get_string("id", ""));
  if (const std::optional<JsonObject> file = root.get_object("file")) {
    record.file = parse_file(*file);
  }
  record.copy_of = root.get_string("copy_of", "");
  record.moved_from = root.get_string("moved_from", "");
  if (root.has("prompt")) record.prompt = root.require_string("prompt");
  record.adapter = root.get_string("adapter", "");
  const std::vector<double> window = root.get_doubles("window_s");
  if (window.size() != 2) {
    throw Error(ErrorCode::kBadReference,
                "record: window_s: expected [begin, end] in seconds, found " +
                    counted(std::ssize(window), "number"));
  }
  record.window_begin_s = window[0];
  record.window_end_s = window[1];
  record.caption = root.require_string("caption");
  record.status = parse_status(root);
  if (const std::optional<JsonObject> error = root.get_object("error")) {
    record.error = {.code = error->require_string("code"),
                    .message = error->require_string("message")};
  }
  require_exactly_with(record.error.has_value(), record.status, Status::kFailed, "error");
  record.reason = root.get_string("reason", "");
  if (root.get_string("status", "") == kLooped) record.reason = kLoopReason;
  require_exactly_with(!record.reason.empty(), record.status, Status::kSuspicious, "reason");
  const JsonObject frames = require_object(root, "frames");
  record.frames_wanted = require_count(frames, "wanted");
  record.frames_used = require_count(frames, "used");
  const JsonObject tokens = require_object(root, "tokens");
  record.prompt_tokens = require_count(tokens, "prompt");
  record.vision_tokens = require_count(tokens, "vision");
  record.output_tokens = require_count(tokens, "output");
  const JsonObject timing = require_object(root, "timing_ms");
  record.decode_ms = require_double(timing, "decode");
  record.vision_ms = require_double(timing, "vision");
  record.first_token_ms = require_double(timing, "first_token");
  record.engine_ms = timing.get_double("engine", 0);
  record.total_ms = require_double(timing, "total");
  if (const std::optional<JsonObject> speculation = root.get_object("speculation")) {
    record.speculation = parse_speculation(*speculation);
  }
  record.finish_reason = root.require_string("finish_reason");
  record.warnings = root.get_strings("warnings");
  record.settings = root.get_string("settings", "");
  record.logprobs_json = find_object(line, kLogprobs);
  return record;
}

}  // namespace caption::records
