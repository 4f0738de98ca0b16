// eval/internal/lines.h: reads a text file or standard input line by line, with names for messages.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "eval/corpus.h"

namespace caption::eval {

struct Line {
  std::string_view text;  // without line end and, on line 1, byte order mark; never blank
  std::string name;       // "captions.jsonl:12"
  bool is_torn;           // true for a last line without a newline
};

// The name of an input in messages: the path, escaped by records/file_name.h, or "standard input".
std::string input_name(const std::filesystem::path& path);

// The text without its byte order mark. Throws Error(kBadReference) for a text in UTF-16, which
// Windows programs write, and for a NUL in its first 4 KiB.
std::string_view require_utf8_text(std::string_view text, const std::string& name);

// Calls `visit` for every line that is not blank. An Error thrown by `visit` and a line above 16
// MiB are added to `problems`, and reading continues with the next line. Throws
// Error(kBadReference) when the file cannot be read or is in UTF-16, Error(kIo | kOutOfMemory), and
// as Problems::throw_if_cancelled().
void for_each_line(const std::filesystem::path& path, Problems& problems,
                   const std::function<void(const Line&)>& visit);

}  // namespace caption::eval
