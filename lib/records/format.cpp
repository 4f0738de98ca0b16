#include "records/format.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/json.h"

namespace caption::records {
namespace {

constexpr std::array kFormats = {Format::kJsonl, Format::kCsv, Format::kTxt};

constexpr std::string_view kCsvHeader =
    "video,prompt,window_begin_s,window_end_s,status,caption,error_code,error_message,frames_"
    "wanted,"
    "frames_used,prompt_tokens,vision_tokens,output_tokens,decode_ms,vision_ms,first_token_ms,"
    "total_ms,finish_reason,warnings\r\n";

// RFC 4180 §2.5-2.7: quoted when it holds a comma, a quote or a line break; quotes are doubled.
std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + "\"";
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (const std::string& part : parts) {
    if (!out.empty()) out += separator;
    out += part;
  }
  return out;
}

std::string csv_line(const Record& record) {
  const ErrorInfo error = record.error.value_or(ErrorInfo{});
  const std::array fields = {
      csv_field(record.video),
      csv_field(record.prompt),
      json_number(record.window_begin_s, 6),
      json_number(record.window_end_s, 6),
      std::string(status_name(record.status)),
      csv_field(record.caption),
      csv_field(error.code),
      csv_field(error.message),
      std::to_string(record.frames_wanted),
      std::to_string(record.frames_used),
      std::to_string(record.prompt_tokens),
      std::to_string(record.vision_tokens),
      std::to_string(record.output_tokens),
      json_number(record.decode_ms, 3),
      json_number(record.vision_ms, 3),
      json_number(record.first_token_ms, 3),
      json_number(record.total_ms, 3),
      record.finish_reason,
      csv_field(join(record.warnings, "; ")),
  };
  return join({fields.begin(), fields.end()}, ",") + "\r\n";
}

std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return text;
}

std::string text_line(const Record& record) {
  const std::string text =
      record.error ? "[" + record.error->code + "] " + record.error->message : record.caption;
  const std::string prompt = record.prompt.empty() ? "" : " (" + record.prompt + ")";
  return record.video + prompt + ": " + one_line(text) + "\n";
}

}  // namespace

std::string_view format_name(Format format) {
  switch (format) {
    case Format::kJsonl: return "jsonl";
    case Format::kCsv: return "csv";
    case Format::kTxt: return "txt";
  }
  return "jsonl";
}

Format parse_format(std::string_view name) {
  for (const Format format : kFormats) {
    if (format_name(format) == name) return format;
  }
  throw Error(ErrorCode::kUsage,
              "--format: \"" + std::string(name) + "\" is none of jsonl, csv, txt");
}

std::string format_header(Format format) {
  return format == Format::kCsv ? std::string(kCsvHeader) : std::string();
}

std::string format_record(Format format, const Record& record) {
  switch (format) {
    case Format::kJsonl: return to_json_line(record) + "\n";
    case Format::kCsv: return csv_line(record);
    case Format::kTxt: return text_line(record);
  }
  return {};
}

}  // namespace caption::records
