// base/log.h: one event a line on stderr: `module: what happened key=value`.
//
// stdout belongs to results. No logging in kernels or per token; counters instead. Thread-safe: a
// line is written whole. Nothing here throws or allocates, so the lack of memory can be logged;
// what stderr does not take is lost. A live progress line can own the terminal's last line
// (set_status_line): log lines then appear above it.
#pragma once

#include <string>
#include <string_view>

namespace caption {

enum class LogLevel {
  kDebug,   // -vv: what becomes of each clip, with its times
  kDetail,  // -v: what was found and chosen, and each clip
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

// Whether the words "warning:" and "error:" are coloured from now on. Default: no.
void set_log_colour(bool is_coloured);
// Only on a terminal that knows colours (its $TERM is not "dumb"), and where the user has not
// refused them: $NO_COLOR set to anything but nothing (no-color.org). Both may be nullptr.
bool wants_colour(bool is_terminal, const char* term, const char* no_color);

// Replaces the live line at the bottom of a terminal; an empty text removes it. Only for a stderr
// that is a terminal (the caller asks stderr_is_terminal()).
void set_status_line(std::string_view text) noexcept;
bool stderr_is_terminal();

}  // namespace caption
