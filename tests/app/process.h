// tests/app/process.h: the binary under test as a child process.
#pragma once

#include <sys/resource.h>
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

// What a child finds when it starts.
struct Surroundings {
  std::filesystem::path folder = {};  // it works in; empty: ours
  Environment environment = {};       // added to ours
  std::vector<std::pair<__rlimit_resource, rlim_t>> limits = {};
  std::vector<int> closed_descriptors = {};  // of 0 to 2
  std::filesystem::path out = {};            // where stdout goes; empty: into Finished
  bool nobody_reads_out = false;             // stdout is a pipe without a reader instead
  unsigned time_limit_s = 0;                 // SIGALRM ends it then; 0: never
};
Finished run_cli_in(const Surroundings& surroundings, const std::vector<std::string>& arguments);

// Starts caption-cli with stdout to /dev/null and stderr to `stderr_file`.
pid_t start_cli(const std::vector<std::string>& arguments,
                const std::filesystem::path& stderr_file);
// Waits for it; the exit code as above.
int wait_for(pid_t child);

std::string read_text(const std::filesystem::path& path);
void write_text(const std::filesystem::path& path, const std::string& text);
// Parses records of whole lines; a torn last line is an error.
std::vector<records::Record> parse_records(const std::string& text);

// A clip of the samples.
std::filesystem::path sample_video(const std::string& name);
std::vector<std::filesystem::path> sample_videos();

}  // namespace caption::test
