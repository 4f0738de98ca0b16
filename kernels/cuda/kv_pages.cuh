// kernels/cuda/kv_pages.cuh: how a warp writes a vector of K or V to its pages.
#pragma once

#include <cstdint>

#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/primitives.cuh"

namespace caption::kernels::cuda {

// One layer's pages of K or of V.
struct PagesHalf {
  void* elements;  // [slots, kv_heads, head_dim]
  BF16* scales;    // [slots, kv_heads] with i8
};

inline PagesHalf pages_half_of(View pages, View scales) {
  return {.elements = pages.raw(), .scales = static_cast<BF16*>(scales.raw())};
}

CAPTION_DEVICE int greatest_of_warp(int x) {
  for (int mask = 16; mask > 0; mask /= 2) {
    const int other = static_cast<int>(shuffle(static_cast<std::uint32_t>(x), lane_index() ^ mask));
    x = other > x ? other : x;
  }
  return x;
}

// The smallest bf16 that is at least x, for 0 <= x.
CAPTION_DEVICE BF16 bf16_upwards(float x) {
  return {static_cast<std::uint16_t>((bits_of_float(x) + 0xFFFFu) >> 16)};
}

// As kernels/paged_attention.h defines pages of i8. All lanes call it.
CAPTION_DEVICE void write_int8(const float* from, int head_dim, std::int8_t* to, BF16* scale_to) {
  constexpr int kInfinityBits = 0x7F800000;
  int greatest = 0;  // magnitudes as integers, whose order is that of their values, NaN last
  for (int i = lane_index(); i < head_dim; i += 32) {
    const int bits = static_cast<int>(bits_of_float(load(from + i)) & 0x7FFFFFFFu);
    greatest = bits > greatest ? bits : greatest;
  }
  greatest = greatest_of_warp(greatest);
  const bool is_finite = greatest < kInfinityBits;
  const float magnitude = float_of_bits(static_cast<std::uint32_t>(greatest));
  const BF16 scale = is_finite ? bf16_upwards(divide(magnitude, 127.0F)) : BF16{0x7FC0};  // NaN
  const float divisor = widen(scale);
  const bool is_zero = !is_finite || divisor == 0;
  for (int i = lane_index(); i < head_dim; i += 32) {
    const int code = is_zero ? 0 : nearest_integer(divide(load(from + i), divisor));
    store(to + i, static_cast<std::int8_t>(code));
  }
  if (lane_index() == 0) store(scale_to, scale);
}

// Writes a vector of shared or global memory as number `vector` of the pages, whose elements are T.
// All lanes call it.
template <class T>
CAPTION_DEVICE void write_to_pages(const float* from, int head_dim, const PagesHalf& pages,
                                   std::int64_t vector) {
  T* const to = static_cast<T*>(pages.elements) + vector * head_dim;
  if constexpr (sizeof(T) == 1) {
    write_int8(from, head_dim, to, pages.scales + vector);
  } else {
    for (int i = lane_index(); i < head_dim; i += 32) {
      T element;
      narrow(load(from + i), element);
      store(to + i, element);
    }
  }
}

}  // namespace caption::kernels::cuda
