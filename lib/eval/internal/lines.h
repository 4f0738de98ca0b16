// eval/internal/lines.h: a text file or standard input line by line, with names for messages.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "eval/corpus.h"

namespace caption::eval {

struct Line {
  std::string_view text;  // without "\n", "\r\n" and, on line 1, a byte order mark; never blank
  std::string name;       // "captions.jsonl:12"
  bool is_torn;           // the last line, and no newline after it
};

// For messages: the path, escaped as records/file_name.h does it, or "standard input".
std::string input_name(const std::filesystem::path& path);

std::string_view without_byte_order_mark(std::string_view text);

// Calls `visit` for every line that is not blank; an Error it throws, and a line beyond 16 MiB, is
// a problem, and the next line follows. Throws Error(kBadReference) when the file cannot be read.
void for_each_line(const std::filesystem::path& path, Problems& problems,
                   const std::function<void(const Line&)>& visit);

}  // namespace caption::eval
