// A warp writes K and V of one token and head.
//
// Traffic  8 bytes per pair of numbers in, 2 to 8 out. Measured on no GPU.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/paged_attention.h"

namespace caption::kernels::cuda {
namespace {

constexpr int kWriteThreads = 128;
constexpr int kWriteWarps = kWriteThreads / 32;

struct Half {
  const float* x;  // k or v, [tokens, kv_heads, head_dim]
  std::int64_t x_stride;
  void* pages;   // [slots, kv_heads, head_dim]
  BF16* scales;  // [slots, kv_heads] with i8
};

struct KvWriteParams {
  Half half[2];
  const std::int32_t* slots;  // [tokens]
  int vectors;                // tokens * kv_heads
  int kv_heads;
  int head_dim;
};

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

template <class T>
struct KvWrite {
  static constexpr int kThreads = kWriteThreads;
  using Params = KvWriteParams;
  struct Shared {};

  static CAPTION_DEVICE void run(const Params& p) {
    const int vector = block_x() * kWriteWarps + warp_index();
    if (vector >= p.vectors) return;
    const int token = vector / p.kv_heads;
    const int head = vector % p.kv_heads;
    const std::int64_t slot_vector =
        static_cast<std::int64_t>(load(p.slots + token)) * p.kv_heads + head;
    for (const Half& half : p.half) {
      const float* const from = half.x + token * half.x_stride + head * p.head_dim;
      T* const to = static_cast<T*>(half.pages) + slot_vector * p.head_dim;
      if constexpr (sizeof(T) == 1) {
        write_int8(from, p.head_dim, to, half.scales + slot_vector);
      } else {
        for (int i = lane_index(); i < p.head_dim; i += 32) {
          T element;
          narrow(load(from + i), element);
          store(to + i, element);
        }
      }
    }
  }
};

Half half_of(ConstView x, View pages, View scales) {
  return {.x = static_cast<const float*>(x.raw()),
          .x_stride = x.row_stride(),
          .pages = pages.raw(),
          .scales = static_cast<BF16*>(scales.raw())};
}

}  // namespace
}  // namespace caption::kernels::cuda

namespace caption::kernels::impl {

void kv_write(Cuda, Stream& stream, ConstView k, ConstView v, ConstView slots,
              const KvLayer& pages) {
  const std::int64_t vectors = k.dim(0) * k.dim(1);
  const cuda::KvWriteParams params{.half = {cuda::half_of(k, pages.k, pages.k_scales),
                                            cuda::half_of(v, pages.v, pages.v_scales)},
                                   .slots = static_cast<const std::int32_t*>(slots.raw()),
                                   .vectors = static_cast<int>(vectors),
                                   .kv_heads = static_cast<int>(k.dim(1)),
                                   .head_dim = static_cast<int>(k.dim(2))};
  const cuda::Grid grid{
      .x = static_cast<unsigned>((vectors + cuda::kWriteWarps - 1) / cuda::kWriteWarps)};
  if (pages.k.dtype() == DType::kI8) {
    cuda::launch<cuda::KvWrite<std::int8_t>>(stream, grid, params);
    return;
  }
  dispatch_float(pages.k.dtype(), [&](auto tag) {
    cuda::launch<cuda::KvWrite<decltype(tag)>>(stream, grid, params);
  });
}

}  // namespace caption::kernels::impl
