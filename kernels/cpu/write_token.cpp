#include "kernels/cpu/write_token.h"

#include <string>

#include "base/error.h"
#include "kernels/cpu/quantise.h"
#include "tensor/dtype.h"

namespace caption::kernels::cpu {
namespace {

void write_quantised(const float* from, std::int64_t slot, View pages, View scales) {
  const std::int64_t kv_heads = pages.dim(2);
  const std::int64_t head_dim = pages.dim(3);
  for (std::int64_t head = slot * kv_heads; head < (slot + 1) * kv_heads; ++head) {
    scales.as<BF16>()[head] = quantise(from, head_dim, pages.as<std::int8_t>() + head * head_dim);
    from += head_dim;
  }
}

}  // namespace

void check_slots(ConstView slots, const KvLayer& pages) {
  const std::int64_t num_slots = pages.k.dim(0) * pages.k.dim(1);
  const std::int32_t* const slot = slots.as<std::int32_t>();
  for (std::int64_t t = 0; t < slots.dim(0); ++t) {
    CAPTION_CHECK(slot[t] >= 0 && slot[t] < num_slots,
                  "kv_write: slot " + std::to_string(slot[t]) + " is outside the " +
                      std::to_string(num_slots) + " that the pages have");
  }
}

void write_token(const float* from, std::int64_t slot, View pages, View scales) {
  if (pages.dtype() == DType::kI8) return write_quantised(from, slot, pages, scales);
  dispatch_float(pages.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const std::int64_t size = pages.dim(2) * pages.dim(3);
    T* const to = pages.as<T>() + slot * size;
    for (std::int64_t i = 0; i < size; ++i) to[i] = from_float<T>(from[i]);
  });
}

}  // namespace caption::kernels::cpu
