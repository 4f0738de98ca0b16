// tests/app/process.h: runs the binary under test as a child process.
#pragma once

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "records/record.h"

namespace caption::test {

struct Finished {
  int exit_code = -1;  // 128 + signal if a signal ended the process
  std::string out;
  std::string err;
};

// Added to the test's environment.
using Environment = std::vector<std::pair<std::string, std::string>>;

// Runs caption-cli with these arguments and with `input` as its standard input.
Finished run_cli(const std::vector<std::string>& arguments, const std::string& input = "",
                 const Environment& environment = {});

// The environment, limits and descriptors with which a child starts.
struct Surroundings {
  std::filesystem::path folder = {};  // working folder; empty: the test's
  Environment environment = {};       // added to the test's environment
  std::vector<std::pair<__rlimit_resource, rlim_t>> limits = {};
  std::vector<int> closed_descriptors = {};  // numbers of 0 to 2 that are closed
  std::filesystem::path out = {};            // file for stdout; empty: stored in Finished
  bool nobody_reads_out = false;             // stdout is a pipe without a reader
  unsigned time_limit_s = 0;                 // time after which SIGALRM ends the process; 0: none
};
Finished run_cli_in(const Surroundings& surroundings, const std::vector<std::string>& arguments);

// Starts caption-cli with stdout to /dev/null and stderr to `stderr_file`.
pid_t start_cli(const std::vector<std::string>& arguments,
                const std::filesystem::path& stderr_file);
// Waits for the child; returns the exit code as in Finished.
int wait_for(pid_t child);

std::string read_text(const std::filesystem::path& path);
void write_text(const std::filesystem::path& path, const std::string& text);
// Parses records of complete lines; throws for a torn last line.
std::vector<records::Record> parse_records(const std::string& text);

// Path of a sample clip; without a name of their folder.
std::filesystem::path sample_video(const std::string& name);
std::vector<std::filesystem::path> sample_videos();
// Path of a sample's copy of 16 small pictures, which takes a tenth of the time to decode, in a
// folder with copies of all samples; without a name of that folder. For tests whose subject is not
// the decoding. The first call makes the copies.
std::filesystem::path small_video(const std::string& name);
std::vector<std::filesystem::path> small_videos();

}  // namespace caption::test

// CAPTURE shows a command's arguments with spaces between them.
template <>
struct doctest::StringMaker<std::vector<std::string>> {
  static doctest::String convert(const std::vector<std::string>& arguments) {
    std::string text;
    for (const std::string& argument : arguments) text += (text.empty() ? "" : " ") + argument;
    return text.c_str();
  }
};
