#include "quantise/internal/gptq_parts.h"

#include <cstdint>

#include "base/error.h"
#include "quantise/internal/numbers.h"

namespace caption::quantise {

Tensor decode_gptq(std::span<const Bytes> parts, const Shape& shape) {
  CAPTION_CHECK(parts.size() == 4, "gptq: qweight, qzeros, scales and g_idx are expected");
  const std::int64_t rows = shape[0];
  const std::int64_t columns = shape[1];
  const auto* const codes = reinterpret_cast<const std::uint32_t*>(parts[0].data());
  const auto* const zeros = reinterpret_cast<const std::uint32_t*>(parts[1].data());
  const auto* const scales = reinterpret_cast<const F16*>(parts[2].data());
  const auto* const group_of = reinterpret_cast<const std::int32_t*>(parts[3].data());
  constexpr std::int64_t kCodesPerWord = 8;
  constexpr std::uint32_t kMask = 15;
  Tensor matrix(DType::kF32, shape);
  for (std::int64_t k = 0; k < columns; ++k) {
    const std::int64_t group = group_of[k];
    const auto shift = static_cast<unsigned>(4 * (k % kCodesPerWord));
    for (std::int64_t n = 0; n < rows; ++n) {
      const std::uint32_t code = codes[k / kCodesPerWord * rows + n] >> shift & kMask;
      const std::uint32_t zero_word = zeros[(group * rows + n) / kCodesPerWord];
      // Version 1 of the layout stores a zero less one.
      const std::uint32_t zero = (zero_word >> (4 * (n % kCodesPerWord)) & kMask) + 1;
      matrix.as<float>()[n * columns + k] =
          to_float(scales[group * rows + n]) *
          static_cast<float>(static_cast<int>(code) - static_cast<int>(zero));
    }
  }
  return matrix;
}

}  // namespace caption::quantise
