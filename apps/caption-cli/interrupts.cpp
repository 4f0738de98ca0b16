#include "interrupts.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string_view>

#include "exit_codes.h"

namespace caption::cli {
namespace {

// Global, because a signal handler has no other access to it.
std::atomic<bool> g_stop{false};
std::atomic<bool> g_asked{false};
std::atomic<bool> g_ends_at_once{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void write_message(std::string_view text) {
  const int saved_errno = errno;
  // A message that stderr does not take is lost.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
  errno = saved_errno;
}

extern "C" void on_interrupt(int signal) {
  if (g_ends_at_once.load()) {
    write_message("\ncaption-cli: interrupted; nothing was done\n");
    ::_exit(kExitInterrupted);
  }
  const bool was_asked = g_asked.exchange(true);
  if (was_asked && signal == SIGHUP) return;
  if (was_asked) ::_exit(kExitInterrupted);
  write_message("\ncaption-cli: stopping; once more to stop at once\n");
  g_stop.store(true);
}

}  // namespace

std::atomic<bool>& catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGTERM, &action, nullptr);
  // A shell starts the background jobs of a script with SIGINT ignored, nohup a program with
  // SIGHUP.
  for (const int signal : {SIGINT, SIGHUP}) {
    struct sigaction at_start {};
    sigaction(signal, nullptr, &at_start);
    if (at_start.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
  }
  return g_stop;
}

EndsAtInterrupt::EndsAtInterrupt() { g_ends_at_once.store(true); }
EndsAtInterrupt::~EndsAtInterrupt() { g_ends_at_once.store(false); }

}  // namespace caption::cli
