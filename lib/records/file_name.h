// records/file_name.h: converts file names, which are arbitrary bytes, to UTF-8 text and back.
//
// Bytes that are not valid UTF-8 and control characters become \xNN (two lower-case digits). A
// backslash is escaped too where the name itself contains the text of such an escape, so that the
// mapping is one to one. Every other character is unchanged.
#pragma once

#include <string>
#include <string_view>

namespace caption::records {

// unescape_file_name(escape_file_name(s)) == s for every byte string.
std::string escape_file_name(std::string_view bytes);
std::string unescape_file_name(std::string_view text);

// Makes a path absolute without requiring that the file exists: prepends the working folder to a
// relative path and removes "." and empty parts. Symbolic links are kept, except when the path
// contains "..": then the folder part is resolved as the system resolves it.
std::string absolute_name(std::string_view path);

}  // namespace caption::records
