// apps/caption-cli/write_text.h: a report to a file, or to stdout.
#pragma once

#include <string>

namespace caption::cli {

// "-" is stdout. Throws Error(kIo) naming the file.
void write_text(const std::string& path, const std::string& text);

// Writes out what std::cout holds. Throws Error(kIo) when that, or anything written to it before,
// failed.
void flush_stdout();

// True when stdout is a pipe or socket that nobody reads any more: what could not be written to it
// is no error then.
bool stdout_reader_is_gone();

}  // namespace caption::cli
