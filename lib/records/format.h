// records/format.h: the output formats of a record.
//
//   jsonl  one JSON object per line with every field of record.h; only this format can be resumed
//   csv    RFC 4180 with a header, the same fields in columns; for spreadsheets, not resumable
//   txt    one line "video: caption" per record, "video (prompt): caption" for named prompts;
//          failed and suspicious records give the reason in brackets; not resumable
//
// In csv, a text cell that begins with = + - @, a tab or a line break (or the full-width form of a
// sign) gets a leading apostrophe, so that a spreadsheet does not evaluate a caption or file name
// as a formula. Numeric cells are written unchanged. File names are escaped as in jsonl
// (file_name.h). Only jsonl preserves every byte of the text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "records/record.h"

namespace caption::records {

enum class Format { kJsonl, kCsv, kTxt };

// Throws Error(kUsage) listing the names.
Format parse_format(std::string_view name);
std::string_view format_name(Format format);
std::vector<std::string> format_names();

// Returns the format that the file's suffix names: .jsonl (.ndjson), .csv or .txt in any case;
// std::nullopt for every other suffix.
std::optional<Format> format_of_suffix(std::string_view path);

// Returns the text written before the first record: empty, or ending with a newline.
std::string format_header(Format format);
// As format_header(), but for a file: csv begins with the UTF-8 byte order mark, without which
// Excel decodes the file in the system's code page.
std::string format_file_header(Format format);
// Whether a text begins with the header of a csv, with or without the byte order mark: csv of
// version 0.1, or redirected from standard output, has none.
bool is_csv_of_captions(std::string_view text);
// Returns the formatted record with its newline.
std::string format_record(Format format, const Record& record);

}  // namespace caption::records
