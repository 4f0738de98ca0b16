// apps/caption-cli/write_text.h: a report to a file, or to stdout.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace caption::cli {

// "-" is stdout. Throws Error(kIo) naming the file.
void write_text(const std::string& path, const std::string& text);

// How a report of each kind begins: a file that begins otherwise is none.
inline constexpr std::string_view kScoresBegin = "{\n  \"references\":";
inline constexpr std::string_view kClipScoresBegin = "{\"video\": ";
inline constexpr std::string_view kBenchBegin = "{\"model\":";
inline constexpr std::string_view kKernelsBegin = "{\"subject\":";
inline constexpr std::string_view kSvgBegin = "<svg ";
inline constexpr std::string_view kPngBegin = "\x89PNG";

// Passes "-", an empty path, what does not exist, is empty or begins with `begin`. Throws
// Error(kUsage) for another file, one of `inputs` among them: a report would destroy it.
void require_replaceable(const std::string& path, std::string_view begin,
                         const std::vector<std::string>& inputs = {});

// Writes out what std::cout holds. Throws Error(kIo) when that, or anything written to it before,
// failed.
void flush_stdout();

// True when stdout is a pipe or socket that nobody reads any more: what could not be written to it
// is no error then.
bool stdout_reader_is_gone();

}  // namespace caption::cli
