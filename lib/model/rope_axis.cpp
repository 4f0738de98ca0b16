#include "model/internal/rope_axis.h"

#include <cstddef>
#include <cstdint>

namespace caption::model {

Tensor make_rope_axis(const DecoderSpec& spec) {
  if (!spec.has_mrope()) return {};
  const std::int64_t half = spec.head_dim / 2;
  const auto& section = spec.mrope_section;
  Tensor axis(DType::kI32, {half});
  for (std::int64_t i = 0; i < half; ++i) {
    std::int32_t follows = 0;
    if (spec.mrope_interleaved) {
      const auto candidate = static_cast<std::int32_t>(i % 3);
      if (candidate > 0 && i < 3 * section[static_cast<std::size_t>(candidate)]) {
        follows = candidate;
      }
    } else if (i >= section[0]) {
      follows = i < section[0] + section[1] ? 1 : 2;
    }
    axis.as<std::int32_t>()[i] = follows;
  }
  return axis;
}

}  // namespace caption::model
