// tests/app/process.h: the binary under test as a child process.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "records/record.h"

namespace caption::test {

struct Finished {
  int exit_code = -1;  // 128 + signal when a signal ended it
  std::string out;
  std::string err;
};

using Environment = std::vector<std::pair<std::string, std::string>>;  // added to ours

// Runs caption-cli with these arguments; `input` is its standard input.
Finished run_cli(const std::vector<std::string>& arguments, const std::string& input = "",
                 const Environment& environment = {});

// Starts caption-cli with stdout to /dev/null and stderr to `stderr_file`.
pid_t start_cli(const std::vector<std::string>& arguments,
                const std::filesystem::path& stderr_file);
// Waits for it; the exit code as above.
int wait_for(pid_t child);

std::string read_text(const std::filesystem::path& path);
void write_text(const std::filesystem::path& path, const std::string& text);
// Of whole lines; a torn last one is an error.
std::vector<records::Record> parse_records(const std::string& text);

// A clip of the samples.
std::filesystem::path sample_video(const std::string& name);
std::vector<std::filesystem::path> sample_videos();

}  // namespace caption::test
