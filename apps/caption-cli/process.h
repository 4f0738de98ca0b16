// apps/caption-cli/process.h: how the process begins and ends, whichever command it runs.
#pragma once

#include <string>

namespace caption::cli {

// To be called first in main():
//   - opens descriptors 0 to 2 on /dev/null where they are closed, so that no file of ours gets
//     the number that log lines or captions are written to; a closed stdout is opened for reading
//     only, so that results written to it are an error rather than lost;
//   - ignores SIGPIPE and SIGXFSZ: writing gives EPIPE and EFBIG instead;
//   - installs the last resort for exceptions that nothing can catch. libstdc++ and other libraries
//     declare functions noexcept that allocate (std::filesystem::directory_iterator's increment):
//     the process then ends with one line and an exit code rather than by abort().
void prepare_process();

// Writes one line to stderr, whatever the message holds; returns `exit_code`.
int fail(const std::string& message, int exit_code);

// In a catch block: one line on stderr for the exception in flight; returns the exit code that it
// means. Needs no memory to say that there is none. Nobody reading stdout any more is no error.
int report_exception() noexcept;

}  // namespace caption::cli
