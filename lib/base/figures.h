// base/figures.h: formats numbers for reports.
#pragma once

#include <string>

namespace caption {

// Formats with three significant figures and a power of 1000: "28.4 G", "1.05 k", "7.31".
std::string format_si(double value);
// Formats with at least `digits` significant figures, as far as nine decimals give them, and no
// exponent: "0.0123", "4610", "0.000000001".
std::string format_number(double value, int digits = 3);
std::string format_percent(double share);  // 0.416 -> "41.6 %"

// Pad `text` with spaces to `width` code points: pad_right() for text, pad_left() for numbers.
std::string pad_right(const std::string& text, std::size_t width);
std::string pad_left(const std::string& text, std::size_t width);

}  // namespace caption
