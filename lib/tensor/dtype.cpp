#include "tensor/dtype.h"

#include <string>

#include "base/error.h"

namespace caption {

F16 to_f16(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  std::uint32_t half = 0;
  if (magnitude > 0x7F800000u) {
    half = 0x7E00u | ((magnitude >> 13) & 0x3FFu);  // quiet NaN
  } else if (magnitude >= 0x477FF000u) {
    half = 0x7C00u;  // 65520 and above round to infinity
  } else if (magnitude >= 0x38800000u) {
    // Normal: exponent re-biased by 127 - 15, mantissa rounded to nearest even at bit 13.
    half = (magnitude + 0xFFFu + ((magnitude >> 13) & 1u) - (112u << 23)) >> 13;
  } else {
    // Subnormal: in [0.5, 1) the unit in the last place is 2^-24, f16's smallest step, so adding
    // 0.5 rounds.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    half = std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(0.5F);
  }
  return {static_cast<std::uint16_t>(sign | half)};
}

void throw_not_floating(DType dtype) {
  throw Error(ErrorCode::kInternal,
              "dtype: found " + std::string(dtype_name(dtype)) + "; wanted one of f32, bf16, f16");
}

}  // namespace caption
