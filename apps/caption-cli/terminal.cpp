#include "terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "environment.h"

namespace caption::cli {
namespace {

constexpr std::size_t kDefaultColumns = 80;
constexpr std::size_t kMinColumns = 40;
constexpr std::size_t kMaxColumns = 1000;

std::size_t known_columns() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const char* variable = environment_variable("COLUMNS");
  const std::string_view text = variable == nullptr ? std::string_view() : variable;
  std::size_t columns = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), columns);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  return is_number && columns > 0 ? columns : kDefaultColumns;
}

}  // namespace

std::size_t stdout_columns() { return std::clamp(known_columns(), kMinColumns, kMaxColumns); }

}  // namespace caption::cli
