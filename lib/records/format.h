// records/format.h: the forms a record can be written in.
//
//   jsonl  one JSON object a line, everything known about the clip (record.h); can be resumed
//   csv    RFC 4180 with a header, the same fields in columns; to be read, not to be resumed
//   txt    "video: caption" a line, to be read, "video (prompt): caption" where prompts have names;
//          a failed clip's line says why in brackets
//
// A csv is made for spreadsheets: a text cell that begins with = + - @, a tab or a line break
// (or the full-width forms of the signs) gets an apostrophe before it, so that no caption and no
// file name is computed as a formula. Columns of numbers stay numbers. Names of files are escaped
// as in jsonl (file_name.h); who wants every byte back reads jsonl.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "records/record.h"

namespace caption::records {

enum class Format { kJsonl, kCsv, kTxt };

// Throws Error(kUsage) naming the three forms.
Format parse_format(std::string_view name);
std::string_view format_name(Format format);

// The form that a file's name asks for: .jsonl (.ndjson), .csv or .txt in any case; std::nullopt
// for every other suffix.
std::optional<Format> format_of_suffix(std::string_view path);

// What stands before the first record; empty, or ends with a newline.
std::string format_header(Format format);
// The same for a file: a csv begins with UTF-8's byte order mark, without which Excel reads it in
// the code page of its system, and Hangul as nonsense.
std::string format_file_header(Format format);
// The record with its newline.
std::string format_record(Format format, const Record& record);

}  // namespace caption::records
