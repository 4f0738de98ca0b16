// quantise/internal/numbers.h: the numbers of a matrix, as the formats' implementations read them.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "quantise/format.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace caption::quantise {

// Ends messages about numbers that calibration cannot go on with.
inline constexpr const char* kWithoutCalibration =
    "; download the model again, or quantise it without --calibrate";

// Reads elements [first, first + numbers.size()) of a dense matrix, row by row. Throws
// Error(kBadModel) when one is not finite.
inline void read_numbers(ConstView matrix, std::int64_t first, std::span<float> numbers) {
  bool is_finite = true;
  dispatch_float(matrix.dtype(), [&](auto tag) {
    const auto* const from = matrix.as<decltype(tag)>() + first;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = to_float(from[i]);
      is_finite = is_finite && std::isfinite(numbers[i]);
    }
  });
  if (!is_finite)
    throw Error(ErrorCode::kBadModel, "a weight is not a finite number; download the model again");
}

// Rounds to f16 and back, as an operation on f16 numbers does that is computed in f32.
inline float round_f16(float number) { return to_float(to_f16(number)); }

// Rounds numbers of a matrix to f16 and back. Throws Error(kBadModel) when one is beyond the range
// of f16.
inline void round_to_f16(std::span<float> numbers) {
  for (float& number : numbers) {
    const float rounded = round_f16(number);
    if (!std::isfinite(rounded)) {
      throw Error(ErrorCode::kBadModel,
                  "a weight of " + std::to_string(number) +
                      " is beyond the range of f16, to which this format rounds weights; "
                      "choose another format");
    }
    number = rounded;
  }
}

// The bytes as numbers; files and this build are little-endian.
template <class T>
T* elements_of(Bytes& bytes) {
  return reinterpret_cast<T*>(bytes.data());
}

inline Bytes zero_bytes(std::int64_t size_bytes) {
  return Bytes(static_cast<std::size_t>(size_bytes));
}

inline Bytes bytes_of_text(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// Rows that a thread takes at a time, so that it reads at least 64 Ki numbers.
inline std::int64_t row_grain(std::int64_t columns) { return 1 + (1 << 16) / columns; }

}  // namespace caption::quantise
