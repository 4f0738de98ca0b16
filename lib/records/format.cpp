#include "records/format.h"

#include <algorithm>
#include <array>

#include "base/ascii.h"
#include "base/error.h"
#include "base/join.h"
#include "base/json.h"
#include "base/nearest.h"
#include "base/utf8.h"

namespace caption::records {
namespace {

constexpr std::array kFormats = {Format::kJsonl, Format::kCsv, Format::kTxt};

// Spreadsheets evaluate a cell that begins with one of these as a formula (OWASP, "CSV Injection");
// the full-width forms are included because East Asian versions accept them too.
constexpr std::array<std::string_view, 11> kFormulaBegins = {
    "=", "+", "-", "@", "\t", "\r", "\n", "\uFF1D", "\uFF0B", "\uFF0D", "\uFF20"};

bool begins_formula(std::string_view text) {
  return std::any_of(kFormulaBegins.begin(), kFormulaBegins.end(),
                     [&](std::string_view begin) { return text.starts_with(begin); });
}

// RFC 4180 section 2, rules 5 to 7: a cell with a comma, a quote or a line break is quoted, and
// quotes are doubled. The apostrophe marks a cell as text for spreadsheets.
std::string csv_text(std::string_view text) {
  const bool is_formula = begins_formula(text);
  if (!is_formula && text.find_first_of(",\"\r\n") == std::string_view::npos) {
    return std::string(text);
  }
  std::string out = is_formula ? "\"'" : "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + "\"";
}

struct CsvColumn {
  std::string_view name;
  std::string (*cell)(const Record& record);  // the text written to the file, already quoted
};

constexpr std::array kCsvColumns = {
    CsvColumn{"video", [](const Record& r) { return csv_text(r.video); }},
    CsvColumn{"prompt", [](const Record& r) { return csv_text(r.prompt); }},
    CsvColumn{"window_begin_s", [](const Record& r) { return json_number(r.window_begin_s, 6); }},
    CsvColumn{"window_end_s", [](const Record& r) { return json_number(r.window_end_s, 6); }},
    CsvColumn{"status", [](const Record& r) { return csv_text(status_name(r.status)); }},
    CsvColumn{"caption", [](const Record& r) { return csv_text(r.caption); }},
    CsvColumn{"error_code", [](const Record& r) { return csv_text(r.error ? r.error->code : ""); }},
    CsvColumn{"error_message",
              [](const Record& r) { return csv_text(r.error ? r.error->message : ""); }},
    CsvColumn{"frames_wanted", [](const Record& r) { return std::to_string(r.frames_wanted); }},
    CsvColumn{"frames_used", [](const Record& r) { return std::to_string(r.frames_used); }},
    CsvColumn{"prompt_tokens", [](const Record& r) { return std::to_string(r.prompt_tokens); }},
    CsvColumn{"vision_tokens", [](const Record& r) { return std::to_string(r.vision_tokens); }},
    CsvColumn{"output_tokens", [](const Record& r) { return std::to_string(r.output_tokens); }},
    CsvColumn{"decode_ms", [](const Record& r) { return json_number(r.decode_ms, 3); }},
    CsvColumn{"vision_ms", [](const Record& r) { return json_number(r.vision_ms, 3); }},
    CsvColumn{"first_token_ms", [](const Record& r) { return json_number(r.first_token_ms, 3); }},
    CsvColumn{"total_ms", [](const Record& r) { return json_number(r.total_ms, 3); }},
    CsvColumn{"finish_reason", [](const Record& r) { return csv_text(r.finish_reason); }},
    CsvColumn{"warnings", [](const Record& r) { return csv_text(join(r.warnings, "; ")); }},
    CsvColumn{"reason", [](const Record& r) { return csv_text(r.reason); }},
    CsvColumn{"id", [](const Record& r) { return csv_text(r.id); }},
    CsvColumn{"path", [](const Record& r) { return csv_text(r.file ? r.file->path : ""); }},
    CsvColumn{"copy_of", [](const Record& r) { return csv_text(r.copy_of); }},
};

std::string csv_header() {
  std::string out;
  for (const CsvColumn& column : kCsvColumns) {
    if (!out.empty()) out += ',';
    out += column.name;
  }
  return out + "\r\n";
}

std::string csv_line(const Record& record) {
  std::string out;
  for (std::size_t i = 0; i < kCsvColumns.size(); ++i) {
    if (i > 0) out += ',';
    out += kCsvColumns[i].cell(record);
  }
  return out + "\r\n";
}

std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return text;
}

std::string text_line(const Record& record) {
  std::string text = record.caption;
  if (record.error) text = "[" + record.error->code + "] " + record.error->message;
  if (!record.reason.empty()) text = "[suspicious: " + record.reason + "] " + record.caption;
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

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const Format format : kFormats) names.emplace_back(format_name(format));
  return names;
}

Format parse_format(std::string_view name) {
  for (const Format format : kFormats) {
    if (format_name(format) == name) return format;
  }
  const std::vector<std::string> names = format_names();
  throw Error(ErrorCode::kUsage, "--format: \"" + std::string(name) + "\" is none of " +
                                     join(names) + did_you_mean(std::string(name), names));
}

std::optional<Format> format_of_suffix(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return std::nullopt;
  const std::string suffix = to_lower_ascii(name.substr(dot + 1));
  if (suffix == "ndjson") return Format::kJsonl;
  const auto format = std::find_if(kFormats.begin(), kFormats.end(), [&](Format candidate) {
    return format_name(candidate) == suffix;
  });
  return format == kFormats.end() ? std::nullopt : std::optional<Format>(*format);
}

std::string format_header(Format format) {
  return format == Format::kCsv ? csv_header() : std::string();
}

std::string format_file_header(Format format) {
  return format == Format::kCsv ? std::string(kByteOrderMark) + csv_header()
                                : format_header(format);
}

bool is_csv_of_captions(std::string_view text) {
  return without_byte_order_mark(text).starts_with(format_header(Format::kCsv));
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
