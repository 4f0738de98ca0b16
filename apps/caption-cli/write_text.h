// apps/caption-cli/write_text.h: writes a report to a file or to stdout.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace caption::cli {

// `path` "-" means stdout. A file is replaced as a whole: one that is there keeps its content until
// the text is on the disk, and when that fails. What cannot be replaced is written in place: a
// device, a FIFO, a file that is a mount of its own or in a folder that takes no new file. Throws
// Error(kIo) naming the file; kOutOfMemory for lack of memory or descriptors.
void write_text(const std::string& path, const std::string& text);

// First bytes of a report of each kind; a file with other first bytes is not a report.
inline constexpr std::string_view kScoresBegin = "{\n  \"references\":";
inline constexpr std::string_view kClipScoresBegin = "{\"video\": ";
inline constexpr std::string_view kBenchBegin = "{\"model\":";
inline constexpr std::string_view kKernelsBegin = "{\"subject\":";
inline constexpr std::string_view kSvgBegin = "<svg ";
inline constexpr std::string_view kPngBegin = "\x89PNG";
// What a contact sheet names as its maker; other pictures are not overwritten.
inline constexpr std::string_view kSheetSoftware = "caption-cli inspect";

// Accepts "-", an empty path, and a file that does not exist, is empty or begins with `begin`; of
// pictures (kPngBegin) only contact sheets. Throws Error(kUsage) for any other file and for one of
// `inputs`, because a report would overwrite it, and for a chart (kSvgBegin) whose name has another
// suffix than .svg; Error(kIo) for a file that does not exist where none can be made, or in no
// folder.
void require_replaceable(const std::string& path, std::string_view begin,
                         const std::vector<std::string>& inputs = {});

// Throws Error(kUsage) where two options name the same file, or both stdout ("-"), for two reports.
// Empty paths name none.
void require_two_files(const std::string& option, const std::string& path,
                       const std::string& other_option, const std::string& other_path);

// Flushes std::cout. Throws Error(kIo) when this or an earlier write to it failed.
void flush_stdout();

// True when stdout is a pipe or socket whose reader has closed it; output that could not be written
// is then not an error.
bool stdout_reader_is_gone();

}  // namespace caption::cli
