// apps/caption-cli/interrupts.h: handles Ctrl-C and SIGTERM.
#pragma once

#include <atomic>

namespace caption::cli {

// Installs handlers: the first SIGINT or SIGTERM sets the returned flag and reports it on stderr;
// the second ends the process at once with kExitInterrupted (all records written so far are
// complete).
std::atomic<bool>& catch_interrupts();

}  // namespace caption::cli
