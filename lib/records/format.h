// records/format.h: the forms a record can be written in.
//
//   jsonl  one JSON object a line, everything known about the clip (record.h); can be resumed
//   csv    RFC 4180 with a header, the same fields in columns
//   txt    "video: caption" a line, to be read, "video (prompt): caption" where prompts have names;
//   a
//          failed clip's line says why in brackets
#pragma once

#include <string>
#include <string_view>

#include "records/record.h"

namespace caption::records {

enum class Format { kJsonl, kCsv, kTxt };

// Throws Error(kUsage) naming the three forms.
Format parse_format(std::string_view name);
std::string_view format_name(Format format);

// What stands before the first record; empty, or ends with a newline.
std::string format_header(Format format);
// The record with its newline.
std::string format_record(Format format, const Record& record);

}  // namespace caption::records
