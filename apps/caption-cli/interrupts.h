// apps/caption-cli/interrupts.h: Ctrl-C and SIGTERM.
#pragma once

#include <atomic>

namespace caption::cli {

// From now on the first SIGINT or SIGTERM sets the returned flag and says so on stderr; the second
// ends the process at once with kExitInterrupted (every record written so far is whole).
std::atomic<bool>& catch_interrupts();

}  // namespace caption::cli
