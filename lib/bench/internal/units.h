// bench/internal/units.h: numbers as a reader wants them.
#pragma once

#include <cstdint>
#include <string>

#include "base/units.h"

namespace caption::bench {

using caption::format_bytes;  // sizes look the same everywhere
// Three significant figures and a power of 1000, for rates and counts: "28.4 G", "1.05 k", "7.31".
std::string format_si(double value);
// At least `digits` significant figures, without an exponent: "0.0123", "4610".
std::string format_number(double value, int digits = 3);
std::string format_percent(double share);  // 0.416 -> "41.6 %"

// `text` and spaces up to `width` characters (code points); on the other side of the text for
// numbers.
std::string pad_right(const std::string& text, std::size_t width);
std::string pad_left(const std::string& text, std::size_t width);

}  // namespace caption::bench
