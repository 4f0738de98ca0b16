#include "records/record.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/error.h"
#include "base/json.h"

namespace caption::records {
namespace {

constexpr std::array kStatuses = {Status::kOk, Status::kTruncated, Status::kLooped,
                                  Status::kFailed};
// Milliseconds and window seconds to the microsecond.
constexpr int kMsDecimals = 3;
constexpr int kSecondsDecimals = 6;
constexpr int kLogprobDecimals = 6;

std::string ms(double value) { return json_number(value, kMsDecimals); }
std::string seconds(double value) { return json_number(value, kSecondsDecimals); }

std::int64_t require_count(const JsonObject& object, std::string_view key) {
  return object.require_int(key, 0, std::numeric_limits<std::int64_t>::max());
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
  if (const std::optional<Status> status = find_status(name)) return *status;
  throw Error(ErrorCode::kBadReference, object.name() + ": status: " + json_quote(name) +
                                            " is none of ok, truncated, looped, failed");
}

std::string logprobs_json(const std::vector<TokenLogprob>& logprobs) {
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
    case Status::kLooped: return "looped";
    case Status::kFailed: return "failed";
  }
  return "failed";
}

std::string to_json_line(const Record& record) {
  std::string out = "{\"video\":" + json_quote(record.video);
  if (!record.prompt.empty()) out += ",\"prompt\":" + json_quote(record.prompt);
  out += ",\"window_s\":[" + seconds(record.window_begin_s) + "," + seconds(record.window_end_s);
  out += "],\"caption\":" + json_quote(record.caption);
  out += ",\"status\":" + json_quote(status_name(record.status));
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
  out += ",\"total\":" + ms(record.total_ms) + "}";
  out += ",\"finish_reason\":" + json_quote(record.finish_reason);
  if (!record.warnings.empty()) {
    out += ",\"warnings\":[";
    for (std::size_t i = 0; i < record.warnings.size(); ++i) {
      if (i > 0) out += ',';
      out += json_quote(record.warnings[i]);
    }
    out += "]";
  }
  if (!record.logprobs.empty()) out += ",\"logprobs\":" + logprobs_json(record.logprobs);
  return out + "}";
}

Record parse_json_line(std::string_view line) {
  const JsonObject root = JsonObject::parse(line, "record", ErrorCode::kBadReference);
  Record record;
  record.video = root.require_string("video");
  if (root.has("prompt")) record.prompt = root.require_string("prompt");
  const std::vector<double> window = root.get_doubles("window_s");
  if (window.size() != 2) {
    throw Error(ErrorCode::kBadReference,
                "record: window_s: expected [begin, end] in seconds, found " +
                    std::to_string(window.size()) + " numbers");
  }
  record.window_begin_s = window[0];
  record.window_end_s = window[1];
  record.caption = root.require_string("caption");
  record.status = parse_status(root);
  if (const std::optional<JsonObject> error = root.get_object("error")) {
    record.error = {.code = error->require_string("code"),
                    .message = error->require_string("message")};
  }
  if (record.error.has_value() != (record.status == Status::kFailed)) {
    throw Error(ErrorCode::kBadReference,
                "record: error: belongs to status failed and to no other; the status is " +
                    std::string(status_name(record.status)));
  }
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
  record.total_ms = require_double(timing, "total");
  record.finish_reason = root.require_string("finish_reason");
  record.warnings = root.get_strings("warnings");
  return record;
}

}  // namespace caption::records
