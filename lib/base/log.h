// base/log.h: logging to stderr, one event per line: `module: what happened key=value`.
//
// stdout carries results only. Kernels and per-token code do not log; they count. Thread-safe: a
// line is written whole. Characters of a message that could move the cursor or begin another line
// are written as U+FFFD (base/display_width.h: printable()). log() allocates nothing for a message
// in ASCII, so running out of memory can be logged; no function here throws. Text that stderr does
// not accept is lost. A status line can occupy the last line of the terminal (set_status_line): log
// lines then appear above it.
#pragma once

#include <string>
#include <string_view>

namespace caption {

enum class LogLevel {
  kDebug,   // -vv: the stages of each clip, with their times
  kDetail,  // -v: what was detected and chosen, and one line per clip
  kInfo,
  kWarning,
  kError,
};

// Messages below `level` are dropped. Default kInfo.
void set_log_level(LogLevel level);
LogLevel log_level();

void log(LogLevel level, std::string_view module, std::string_view message) noexcept;
inline void log_debug(std::string_view module, std::string_view message) {
  log(LogLevel::kDebug, module, message);
}
inline void log_detail(std::string_view module, std::string_view message) {
  log(LogLevel::kDetail, module, message);
}
inline void log_info(std::string_view module, std::string_view message) {
  log(LogLevel::kInfo, module, message);
}
inline void log_warning(std::string_view module, std::string_view message) {
  log(LogLevel::kWarning, module, message);
}

// As log(), but a message that was logged so before is dropped: for what is found wherever a name
// is looked up. Keeps a hash of each message as long as the process lives.
void log_once(LogLevel level, std::string_view module, std::string_view message) noexcept;

// Sets whether the words "warning:" and "error:" are coloured from now on. Default: no.
void set_log_colour(bool is_coloured);
// True for a terminal that supports colours ($TERM is set and not "dumb") unless the user refuses
// them: $NO_COLOR set to a non-empty value (https://no-color.org). Both pointers may be null.
bool wants_colour(bool is_terminal, const char* term, const char* no_color);

// Replaces the status line at the bottom of the terminal; an empty text removes it. To be called
// only when stderr_is_terminal().
void set_status_line(std::string_view text) noexcept;
bool stderr_is_terminal();

}  // namespace caption
