#include "base/log.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <mutex>

namespace caption {
namespace {

std::atomic<LogLevel> g_level{LogLevel::kInfo};
std::mutex g_mutex;
std::string g_status_line;  // guarded by g_mutex

const char* prefix(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return "debug: ";
    case LogLevel::kInfo: return "";
    case LogLevel::kWarning: return "warning: ";
    case LogLevel::kError: return "error: ";
  }
  return "";
}

// One fwrite, so lines of several processes on one terminal do not mix within a line.
void write_stderr(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

void set_log_level(LogLevel level) { g_level.store(level, std::memory_order_relaxed); }

LogLevel log_level() { return g_level.load(std::memory_order_relaxed); }

void log(LogLevel level, std::string_view module, std::string_view message) {
  if (level < log_level()) return;
  std::string line;
  const std::lock_guard<std::mutex> lock(g_mutex);
  if (!g_status_line.empty()) line += "\r\033[K";
  line += prefix(level);
  line += module;
  line += ": ";
  line += message;
  line += '\n';
  line += g_status_line;
  write_stderr(line);
}

void set_status_line(std::string_view text) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  if (text.empty() && g_status_line.empty()) return;
  g_status_line = text;
  write_stderr("\r\033[K" + g_status_line);
}

bool stderr_is_terminal() { return ::isatty(STDERR_FILENO) == 1; }

}  // namespace caption
