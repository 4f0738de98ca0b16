#include "interrupts.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "exit_codes.h"

namespace caption::cli {
namespace {

// Global, because a signal handler has no other access to it.
std::atomic<bool> g_stop{false};
std::atomic<bool> g_asked{false};
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void on_interrupt(int /*signal*/) {
  if (g_asked.exchange(true)) ::_exit(kExitInterrupted);
  const int saved_errno = errno;
  constexpr char kMessage[] = "\ncaption-cli: stopping; once more to stop at once\n";
  if (::write(STDERR_FILENO, kMessage, sizeof kMessage - 1) < 0) errno = saved_errno;
  errno = saved_errno;
  g_stop.store(true);
}

}  // namespace

std::atomic<bool>& catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  return g_stop;
}

}  // namespace caption::cli
