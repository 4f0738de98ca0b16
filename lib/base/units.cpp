#include "base/units.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <system_error>

#include "base/ascii.h"
#include "base/json.h"

namespace caption {
namespace {

constexpr std::string_view kPowers = "kmgtp";  // prefixes of the powers 1 to 5 of 1024 or 1000
constexpr std::string_view kDigits = "0123456789";

// A decimal number at the start of a text, with its parts.
struct Decimal {
  std::string_view whole;
  std::string_view fraction;  // the digits after the point; empty: no point
  std::string_view rest;
};

// std::nullopt unless the text begins with a digit, and a decimal point is followed by a digit.
std::optional<Decimal> read_decimal(std::string_view text) {
  Decimal number;
  number.whole = text.substr(0, std::min(text.find_first_not_of(kDigits), text.size()));
  if (number.whole.empty()) return std::nullopt;
  number.rest = text.substr(number.whole.size());
  if (!number.rest.starts_with('.')) return number;
  number.rest.remove_prefix(1);
  number.fraction =
      number.rest.substr(0, std::min(number.rest.find_first_not_of(kDigits), number.rest.size()));
  if (number.fraction.empty()) return std::nullopt;
  number.rest.remove_prefix(number.fraction.size());
  return number;
}

// Number of bytes of a unit in lower case: "gib", "g", "gb", "b" or "".
std::optional<std::int64_t> bytes_of_unit(std::string_view unit) {
  if (unit.empty() || unit == "b") return 1;
  const std::size_t power = kPowers.find(unit.front());
  if (power == std::string_view::npos) return std::nullopt;
  const std::string_view suffix = unit.substr(1);
  if (!suffix.empty() && suffix != "ib" && suffix != "b") return std::nullopt;
  const std::int64_t base = suffix == "b" ? 1000 : 1024;
  std::int64_t bytes = base;
  for (std::size_t i = 0; i < power; ++i) bytes *= base;
  return bytes;
}

// Number of bytes of the unit that follows a number, with or without a space.
std::optional<std::int64_t> bytes_of_unit_in(const Decimal& number) {
  std::string_view unit = number.rest;
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  if (unit.empty() && !number.rest.empty()) return std::nullopt;
  return bytes_of_unit(to_lower_ascii(unit));
}

// 0.FRACTION of `unit`, rounded down. Exact: floor((a + floor(b)) / 10) is floor((a + b) / 10) for
// whole a, and 9 times the largest unit fits 64 bits.
std::int64_t share_of(std::int64_t unit, std::string_view fraction) {
  std::int64_t share = 0;
  for (auto digit = fraction.rbegin(); digit != fraction.rend(); ++digit) {
    share = (share + (*digit - '0') * unit) / 10;
  }
  return share;
}

struct TimeUnit {
  std::string_view name;
  double seconds;
};
constexpr std::array kTimeUnits = {TimeUnit{"d", 86400}, TimeUnit{"h", 3600}, TimeUnit{"m", 60},
                                   TimeUnit{"s", 1}, TimeUnit{"ms", 1e-3}};

double to_double(std::string_view digits) {
  // from_chars() leaves `value` unchanged when the number is too large for a double.
  double value = std::numeric_limits<double>::infinity();
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

// The whole text as a number of seconds.
std::optional<double> plain_seconds(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const bool is_time =
      error == std::errc() && stop == end && std::isfinite(value) && !std::signbit(value);
  return is_time ? std::optional<double>(value) : std::nullopt;
}

}  // namespace

bool is_size(std::string_view text) {
  const std::optional<Decimal> number = read_decimal(text);
  return number.has_value() && bytes_of_unit_in(*number).has_value();
}

std::optional<std::int64_t> parse_bytes(std::string_view text) {
  const std::optional<Decimal> number = read_decimal(text);
  if (!number.has_value()) return std::nullopt;
  const std::optional<std::int64_t> unit_bytes = bytes_of_unit_in(*number);
  if (!unit_bytes.has_value()) return std::nullopt;

  std::int64_t whole = 0;
  const std::string_view digits = number->whole;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), whole);
  if (result.ec != std::errc()) return std::nullopt;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  if (whole > kMost / *unit_bytes) return std::nullopt;
  const std::int64_t bytes = whole * *unit_bytes;
  const std::int64_t part = share_of(*unit_bytes, number->fraction);
  return bytes > kMost - part ? std::nullopt : std::optional<std::int64_t>(bytes + part);
}

std::optional<double> parse_seconds(std::string_view text) {
  if (const std::optional<double> plain = plain_seconds(text)) return plain;
  double seconds = 0;
  std::size_t next_unit = 0;  // units come in the order of kTimeUnits, each once
  while (!text.empty()) {
    const std::optional<Decimal> number = read_decimal(text);
    if (!number.has_value()) return std::nullopt;
    text = number->rest;
    if (text.starts_with(' ')) text.remove_prefix(1);
    std::string unit =
        to_lower_ascii(text.substr(0, std::min(text.find_first_of(kDigits), text.size())));
    text.remove_prefix(unit.size());
    if (unit.ends_with(' ') && !text.empty()) unit.pop_back();  // "1h 30m"
    const auto* const found = std::find_if(kTimeUnits.begin(), kTimeUnits.end(),
                                           [&](const TimeUnit& u) { return u.name == unit; });
    const auto idx = static_cast<std::size_t>(found - kTimeUnits.begin());
    if (idx < next_unit || idx == kTimeUnits.size()) return std::nullopt;
    if (!number->fraction.empty() && !text.empty()) return std::nullopt;
    next_unit = idx + 1;
    const double value =
        to_double(std::string(number->whole) +
                  (number->fraction.empty() ? "" : "." + std::string(number->fraction)));
    // A division, not a multiplication: 250 / 1000 is the double nearest to 0.25, 250 * 0.001 is
    // not.
    seconds += unit == "ms" ? value / 1000 : value * found->seconds;
  }
  const bool is_time = next_unit > 0 && std::isfinite(seconds);
  return is_time ? std::optional<double>(seconds) : std::nullopt;
}

bool has_leading_zeros(std::string_view number) {
  if (number.starts_with('-')) number.remove_prefix(1);
  return number.size() > 1 && number[0] == '0' && kDigits.find(number[1]) != std::string_view::npos;
}

std::string exact_bytes(std::int64_t bytes) {
  constexpr std::array kUnits = {"", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + kUnits[unit];
}

std::string exact_seconds(double seconds) {
  constexpr double kMostCompound = 1e9;
  const bool is_whole = seconds == std::floor(seconds) && seconds < kMostCompound;
  if (!is_whole || seconds < 1) {
    const double ms = seconds * 1000;
    const bool is_whole_ms = seconds > 0 && seconds < 1 && ms == std::floor(ms);
    if (is_whole_ms && ms / 1000 == seconds) return json_number(ms) + "ms";
    // A number with an exponent gets no unit; it is read as seconds.
    const std::string number = json_number(seconds);
    return number.find('e') == std::string::npos ? number + "s" : number;
  }
  auto rest = static_cast<std::int64_t>(seconds);
  std::string out;
  for (const TimeUnit& unit : kTimeUnits) {
    if (unit.seconds < 1) break;
    const auto unit_s = static_cast<std::int64_t>(unit.seconds);
    if (rest < unit_s) continue;
    out += std::to_string(rest / unit_s) + std::string(unit.name);
    rest %= unit_s;
  }
  return out;
}

std::string format_bytes(std::int64_t bytes) {
  if (bytes < 1000) return std::to_string(bytes) + " B";
  auto value = static_cast<double>(bytes);
  std::size_t power = 0;  // number of divisions by 1000
  while (value >= 999.5 && power < kPowers.size()) {
    value /= 1000;
    ++power;
  }
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f %cB", decimals, value,
                power == 1 ? 'k' : " kMGTP"[power]);
  return text.data();
}

}  // namespace caption
