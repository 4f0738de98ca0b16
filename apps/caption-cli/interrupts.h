// apps/caption-cli/interrupts.h: handles Ctrl-C, SIGTERM and SIGHUP.
#pragma once

#include <atomic>

namespace caption::cli {

// Installs handlers: the first SIGINT, SIGTERM or SIGHUP sets the returned flag and reports it on
// stderr; a second SIGINT or SIGTERM ends the process at once with kExitInterrupted (all records
// written so far are complete). A second SIGHUP does nothing, since kernel and shell may each send
// one when a terminal is closed. A SIGINT or SIGHUP that is ignored at the start, as in a script's
// background job or under nohup, stays so.
std::atomic<bool>& catch_interrupts();

// While one of these lives, already the first of these signals ends the process at once with
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
