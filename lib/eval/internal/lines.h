// eval/internal/lines.h: a text file line by line, with names for messages.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace caption::eval {

struct Line {
  std::string_view text;  // without "\n", "\r\n" and, on line 1, a byte order mark; never blank
  std::string name;       // "captions.jsonl:12"
  bool is_torn;           // the last line, and no newline after it
};

// Calls `visit` for every line that is not blank. Throws Error(kBadReference) when the file cannot
// be read, and for a line beyond 16 MiB.
void for_each_line(const std::filesystem::path& path,
                   const std::function<void(const Line&)>& visit);

}  // namespace caption::eval
