#include "tests/gpu/mma_products.h"

#include "kernels/cuda/launch.cuh"

namespace caption::testing {
namespace {

using namespace kernels::cuda;

constexpr int kWarps = 4;

template <bool kIsF16>
struct MultiplyFragments {
  static constexpr int kThreads = 32 * kWarps;
  struct Params {
    LaneOperands* operands;  // [count][32]
    std::int64_t count;
  };
  struct Shared {};

  static CAPTION_DEVICE void run(const Params& p) {
    const std::int64_t product = std::int64_t{block_x()} * kWarps + warp_index();
    if (product >= p.count) return;
    LaneOperands* const of_lane = p.operands + product * 32 + lane_index();
    FragmentA a;
    FragmentB b;
    FragmentC c;
    for (int i = 0; i < 4; ++i) a.pair[i] = load(&of_lane->a[i]);
    for (int i = 0; i < 2; ++i) b.pair[i] = load(&of_lane->b[i]);
    for (int i = 0; i < 4; ++i) c.sum[i] = load(&of_lane->c[i]);
    if constexpr (kIsF16) {
      mma_f16(c, a, b);
    } else {
      mma_bf16(c, a, b);
    }
    for (int i = 0; i < 4; ++i) store(&of_lane->c[i], c.sum[i]);
  }
};

}  // namespace

void multiply_fragments(Stream& stream, LaneOperands* operands, std::int64_t count, bool is_f16) {
  const Grid grid{.x = static_cast<unsigned>((count + kWarps - 1) / kWarps)};
  if (is_f16) {
    launch<MultiplyFragments<true>>(stream, grid, {.operands = operands, .count = count});
  } else {
    launch<MultiplyFragments<false>>(stream, grid, {.operands = operands, .count = count});
  }
}

}  // namespace caption::testing
