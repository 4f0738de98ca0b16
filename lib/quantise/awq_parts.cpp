#include "quantise/internal/awq_parts.h"

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/error.h"

namespace caption::quantise {

Tensor decode_awq(std::span<const Bytes> parts, const Shape& shape) {
  CAPTION_CHECK(parts.size() == 3, "awq: qweight, qzeros and scales are expected");
  const std::int64_t rows = shape[0];
  const std::int64_t columns = shape[1];
  const auto* const codes = reinterpret_cast<const std::uint32_t*>(parts[0].data());
  const auto* const zeros = reinterpret_cast<const std::uint32_t*>(parts[1].data());
  const auto* const scales = reinterpret_cast<const F16*>(parts[2].data());
  const std::int64_t groups = std::ssize(parts[2]) / 2 / rows;
  const std::int64_t group_columns = columns / groups;
  constexpr std::int64_t kCodesPerWord = 8;
  constexpr std::uint32_t kMask = 15;
  // First bit of a word's code of row n % 8.
  constexpr std::array<unsigned, 8> kShift = {0, 16, 4, 20, 8, 24, 12, 28};
  Tensor matrix(DType::kF32, shape);
  for (std::int64_t k = 0; k < columns; ++k) {
    const std::int64_t group = k / group_columns;
    for (std::int64_t n = 0; n < rows; ++n) {
      const unsigned shift = kShift[static_cast<std::size_t>(n % kCodesPerWord)];
      const std::uint32_t code = codes[(k * rows + n) / kCodesPerWord] >> shift & kMask;
      const std::uint32_t zero = zeros[(group * rows + n) / kCodesPerWord] >> shift & kMask;
      matrix.as<float>()[n * columns + k] =
          to_float(scales[group * rows + n]) *
          static_cast<float>(static_cast<int>(code) - static_cast<int>(zero));
    }
  }
  return matrix;
}

}  // namespace caption::quantise
