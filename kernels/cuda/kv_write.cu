// A warp writes K and V of one token and head.
//
// Traffic  8 bytes per pair of numbers in, 2 to 8 out. Measured on no GPU.
#include "kernels/cuda/kv_pages.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/paged_attention.h"

namespace caption::kernels::cuda {
namespace {

constexpr int kWriteThreads = 128;
constexpr int kWriteWarps = kWriteThreads / 32;

struct Half {
  const float* x;  // k or v, [tokens, kv_heads, head_dim]
  std::int64_t x_stride;
  PagesHalf pages;
};

struct KvWriteParams {
  Half half[2];
  const std::int32_t* slots;  // [tokens]
  int vectors;                // tokens * kv_heads
  int kv_heads;
  int head_dim;
};

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
      write_to_pages<T>(from, p.head_dim, half.pages, slot_vector);
    }
  }
};

Half half_of(ConstView x, PagesHalf pages) {
  return {.x = static_cast<const float*>(x.raw()), .x_stride = x.row_stride(), .pages = pages};
}

}  // namespace
}  // namespace caption::kernels::cuda

namespace caption::kernels::impl {

void kv_write(Cuda, Stream& stream, ConstView k, ConstView v, ConstView slots,
              const KvLayer& pages) {
  const std::int64_t vectors = k.dim(0) * k.dim(1);
  const cuda::KvWriteParams params{
      .half = {cuda::half_of(k, cuda::pages_half_of(pages.k, pages.k_scales)),
               cuda::half_of(v, cuda::pages_half_of(pages.v, pages.v_scales))},
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
