// apps/caption-cli/process.h: start and end of the process, common to all commands.
#pragma once

#include <string>
#include <string_view>

namespace caption::cli {

// Must be called first in main():
//   - opens closed descriptors 0 to 2 on /dev/null, so that no other file gets a number that log
//     lines or captions are written to; a closed stdout is opened for reading only, so that writing
//     results to it fails and they are not lost silently;
//   - ignores SIGPIPE and SIGXFSZ, so that writing returns EPIPE and EFBIG;
//   - installs a terminate handler for exceptions that cannot be caught: some noexcept functions of
//     libstdc++ and other libraries allocate (std::filesystem::directory_iterator's increment). The
//     process then ends with one line and an exit code, not by abort().
void prepare_process();

// Returns main(argc, argv). Where the limit of stacks (ulimit -s) is below 2 MiB, main() runs in a
// thread with a stack of 2 MiB, and all threads that main() starts have as much. Where the address
// space is limited (ulimit -v), the first thread's stack is grown to 1 MiB before main() runs: the
// kernel grows it as it is used, and sends SIGSEGV when the limit then leaves no room. Without room
// for 2 MiB at the start, returns the exit code for lack of memory.
int run_on_large_stack(int (*main)(int argc, char** argv) noexcept, int argc, char** argv);

// A message with its control characters and invalid bytes escaped. Parts that are already escaped,
// such as names from records, are unchanged.
std::string one_line(std::string_view message);

// Writes the message to stderr as one line and returns `exit_code`.
int fail(const std::string& message, int exit_code);

// Must be called in a catch block: writes one line to stderr for the current exception and returns
// its exit code. Reports lack of memory without allocating. A closed reader of stdout is not an
// error.
int report_exception() noexcept;

}  // namespace caption::cli
