// apps/caption-cli/write_text.h: a report to a file, or to stdout.
#pragma once

#include <string>

namespace caption::cli {

// "-" is stdout. Throws Error(kIo) naming the file.
void write_text(const std::string& path, const std::string& text);

}  // namespace caption::cli
