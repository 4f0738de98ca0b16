#include "kernels/cpu/vectors.h"

#include <cstring>

#include "kernels/cpu/quantise.h"
#include "tensor/dtype.h"

namespace caption::kernels::cpu {

void read_vector(ConstView pages, ConstView scales, std::int64_t head, float* y) {
  const std::int64_t head_dim = pages.dim(3);
  if (pages.dtype() == DType::kI8) {
    const std::int8_t* const from = pages.as<std::int8_t>() + head * head_dim;
    const float scale = to_float(scales.as<BF16>()[head]);
    for (std::int64_t d = 0; d < head_dim; ++d) y[d] = static_cast<float>(from[d]) * scale;
    return;
  }
  dispatch_float(pages.dtype(), [&](auto tag) {
    const auto* const from = pages.as<decltype(tag)>() + head * head_dim;
    for (std::int64_t d = 0; d < head_dim; ++d) y[d] = to_float(from[d]);
  });
}

void write_vector(View pages, View scales, std::int64_t head, const float* x) {
  const std::int64_t head_dim = pages.dim(3);
  if (pages.dtype() == DType::kI8) {
    scales.as<BF16>()[head] = quantise(x, head_dim, pages.as<std::int8_t>() + head * head_dim);
    return;
  }
  dispatch_float(pages.dtype(), [&](auto tag) {
    using T = decltype(tag);
    T* const to = pages.as<T>() + head * head_dim;
    for (std::int64_t d = 0; d < head_dim; ++d) to[d] = from_float<T>(x[d]);
  });
}

void move_vector(View pages, View scales, std::int64_t from, std::int64_t to) {
  if (from == to) return;
  const auto bytes = static_cast<std::size_t>(pages.dim(3)) * dtype_size_bytes(pages.dtype());
  auto* const begin = static_cast<std::byte*>(pages.raw());
  std::memcpy(begin + static_cast<std::size_t>(to) * bytes,
              begin + static_cast<std::size_t>(from) * bytes, bytes);
  if (!scales.empty()) scales.as<BF16>()[to] = scales.as<BF16>()[from];
}

}  // namespace caption::kernels::cpu
