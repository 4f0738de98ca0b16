// base/math.h: arithmetic helpers.
#pragma once

#include <cstdint>

namespace caption {

// ceil(a / b) for a >= 0, b > 0.
constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

constexpr double as_double(std::int64_t value) { return static_cast<double>(value); }

}  // namespace caption
