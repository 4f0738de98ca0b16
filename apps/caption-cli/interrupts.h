// apps/caption-cli/interrupts.h: handles Ctrl-C and SIGTERM.
#pragma once

#include <atomic>

namespace caption::cli {

// Installs handlers: the first SIGINT or SIGTERM sets the returned flag and reports it on stderr;
// the second ends the process at once with kExitInterrupted (all records written so far are
// complete). SIGINT stays ignored in a process that was started so.
std::atomic<bool>& catch_interrupts();

// While one of these lives, already the first SIGINT or SIGTERM ends the process at once with
// kExitInterrupted: for reading what another program may never write (a FIFO), before anything is
// written. One at a time.
class EndsAtInterrupt {
 public:
  EndsAtInterrupt();
  ~EndsAtInterrupt();
  EndsAtInterrupt(const EndsAtInterrupt&) = delete;
  EndsAtInterrupt& operator=(const EndsAtInterrupt&) = delete;
};

}  // namespace caption::cli
