#include "base/figures.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace caption {
namespace {

std::size_t num_characters(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u;
  }));
}

std::string padding(const std::string& text, std::size_t width) {
  const std::size_t length = num_characters(text);
  return std::string(length < width ? width - length : 0, ' ');
}

}  // namespace

std::string format_number(double value, int digits) {
  if (!std::isfinite(value)) return "-";
  if (value == 0) return "0";
  const int magnitude = static_cast<int>(std::floor(std::log10(std::abs(value))));
  const int decimals = std::clamp(digits - 1 - magnitude, 0, 9);
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

std::string format_si(double value) {
  constexpr std::array kPrefixes = {"", "k", "M", "G", "T", "P"};
  std::size_t prefix = 0;
  while (std::abs(value) >= 999.5 && prefix + 1 < kPrefixes.size()) {
    value /= 1000;
    ++prefix;
  }
  return format_number(value) + " " + kPrefixes[prefix];
}

std::string format_percent(double share) { return format_number(100 * share) + " %"; }

std::string pad_right(const std::string& text, std::size_t width) {
  return text + padding(text, width);
}

std::string pad_left(const std::string& text, std::size_t width) {
  return padding(text, width) + text;
}

}  // namespace caption
