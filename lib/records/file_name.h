// records/file_name.h: file names as text. A name is bytes; a record is UTF-8.
//
// Bytes that are not valid UTF-8 and control characters become \xNN (two lower-case digits); so
// does a backslash that such an escape would follow anyway, which makes the mapping one to one.
// Every other name stays as it is.
#pragma once

#include <string>
#include <string_view>

namespace caption::records {

// unescape_file_name(escape_file_name(s)) == s for every byte string.
std::string escape_file_name(std::string_view bytes);
std::string unescape_file_name(std::string_view text);

// The absolute path of a file that need not exist: the working folder before a relative one, less
// "." and empty parts. Links stay, but for those in the folder of a path with "..", which is
// resolved as the system does.
std::string absolute_name(std::string_view path);

}  // namespace caption::records
