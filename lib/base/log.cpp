#include "base/log.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <functional>
#include <mutex>
#include <new>
#include <set>

#include "base/display_width.h"

namespace caption {
namespace {

std::atomic<LogLevel> g_level{LogLevel::kInfo};
std::atomic<bool> g_is_coloured{false};
std::mutex g_mutex;
std::string g_status_line;            // guarded by g_mutex
std::set<std::size_t> g_logged_once;  // hashes of messages; guarded by g_mutex

constexpr std::string_view kClearLine = "\r\033[K";

std::string_view prefix(LogLevel level, bool is_coloured) {
  switch (level) {
    case LogLevel::kDebug: return "debug: ";
    case LogLevel::kDetail:
    case LogLevel::kInfo: return "";
    case LogLevel::kWarning: return is_coloured ? "\033[33mwarning:\033[0m " : "warning: ";
    case LogLevel::kError: return is_coloured ? "\033[31merror:\033[0m " : "error: ";
  }
  return "";
}

// The message, or its copy in `copy` without the characters that would move the cursor or begin
// another line: messages quote files that come from elsewhere. Without memory for the copy, the
// message as it is; one of plain ASCII needs none.
std::string_view printable_text(std::string_view message, std::string& copy) noexcept {
  const bool is_plain = std::all_of(message.begin(), message.end(),
                                    [](unsigned char c) { return c >= 0x20 && c < 0x7F; });
  if (is_plain) return message;
  try {
    return copy = printable(message);
  } catch (const std::bad_alloc&) {
    return message;
  }
}

// Uses one writev(), so that lines of several processes on one terminal do not mix within a line.
// Text that stderr does not accept is lost: there is no other place to report it. Allocates
// nothing.
template <std::size_t kCount>
void write_stderr(const std::array<std::string_view, kCount>& texts) {
  std::array<iovec, kCount> parts{};
  for (std::size_t i = 0; i < kCount; ++i) {
    parts[i] = {const_cast<char*>(texts[i].data()), texts[i].size()};
  }
  for (std::size_t first = 0; first < kCount;) {
    if (parts[first].iov_len == 0) {
      ++first;
      continue;
    }
    ssize_t written =
        ::writev(STDERR_FILENO, parts.data() + first, static_cast<int>(kCount - first));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    while (written > 0) {
      const std::size_t taken = std::min(parts[first].iov_len, static_cast<std::size_t>(written));
      parts[first].iov_base = static_cast<char*>(parts[first].iov_base) + taken;
      parts[first].iov_len -= taken;
      written -= static_cast<ssize_t>(taken);
      if (parts[first].iov_len == 0) ++first;
    }
  }
}

}  // namespace

void set_log_level(LogLevel level) { g_level.store(level, std::memory_order_relaxed); }

LogLevel log_level() { return g_level.load(std::memory_order_relaxed); }

void set_log_colour(bool is_coloured) {
  g_is_coloured.store(is_coloured, std::memory_order_relaxed);
}

bool wants_colour(bool is_terminal, const char* term, const char* no_color) {
  const bool is_refused = no_color != nullptr && *no_color != '\0';
  const bool knows_colours = term != nullptr && *term != '\0' && std::string_view(term) != "dumb";
  return is_terminal && knows_colours && !is_refused;
}

void log(LogLevel level, std::string_view module, std::string_view message) noexcept {
  if (level < log_level()) return;
  std::string copy;
  message = printable_text(message, copy);
  const std::lock_guard<std::mutex> lock(g_mutex);
  const std::string_view clear = g_status_line.empty() ? std::string_view() : kClearLine;
  write_stderr<7>({clear, prefix(level, g_is_coloured.load(std::memory_order_relaxed)), module,
                   ": ", message, "\n", g_status_line});
}

void log_once(LogLevel level, std::string_view module, std::string_view message) noexcept {
  if (level < log_level()) return;
  try {
    const std::lock_guard<std::mutex> lock(g_mutex);
    if (!g_logged_once.insert(std::hash<std::string_view>()(message)).second) return;
  } catch (const std::bad_alloc&) {
    // The message may then be logged again.
  }
  log(level, module, message);
}

void set_status_line(std::string_view text) noexcept {
  const std::lock_guard<std::mutex> lock(g_mutex);
  if (text.empty() && g_status_line.empty()) return;
  try {
    g_status_line = text;
  } catch (const std::bad_alloc&) {
    g_status_line.clear();  // the status line is lost
  }
  write_stderr<2>({kClearLine, g_status_line});
}

bool stderr_is_terminal() { return ::isatty(STDERR_FILENO) == 1; }

}  // namespace caption
