// Norms on a GPU: a block of 128 threads per row.
//
// Traffic  4 bytes per number in, 2 or 4 out; the second and third pass over a row find it in L1.
// Sums     a thread's numbers in their order, then lanes in a tree, then warps in their order.
// Measured on no GPU.
#include "kernels/norm.h"

#include "kernels/cuda/dependent_launch.cuh"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/rms.cuh"

namespace caption::kernels::cuda {
namespace {

struct NormParams {
  const float* x;
  ConstNumbers weight;
  ConstNumbers bias;  // LayerNorm only
  Numbers y;
  Vectors in;
  Vectors out;
  float eps;
};

// Calls work(first column, numbers of the row from there) for the packs of a thread.
template <int kCount, class Work>
CAPTION_DEVICE void for_each_pack(const float* row, int dim, Work work) {
  for (int c = thread_index() * kCount; c < dim; c += kNormThreads * kCount) {
    work(c, load(reinterpret_cast<const Packed<float, kCount>*>(row + c)));
  }
}

template <int kCount>
struct RmsNorm {
  static constexpr int kThreads = kNormThreads;
  using Params = NormParams;
  struct Shared {
    float sums[kNormWarps];
  };

  static CAPTION_DEVICE void run(const Params& p) {
    wait_for_launches_before();
    const float* const row = p.x + p.in.offset(block_x());
    const std::int64_t out = p.out.offset(block_x());
    float squares = 0;
    for_each_pack<kCount>(row, p.in.dim, [&](int, const Packed<float, kCount>& x) {
      for (int i = 0; i < kCount; ++i) squares = fused(x.x[i], x.x[i], squares);
    });
    const float sum = sum_of_block(shared_memory<Shared>().sums, squares);
    const float factor = rms_factor(sum, p.in.dim, p.eps);
    for_each_pack<kCount>(row, p.in.dim, [&](int c, Packed<float, kCount> x) {
      const Packed<float, kCount> weight = load_numbers<kCount>(p.weight, c);
      for (int i = 0; i < kCount; ++i) x.x[i] = x.x[i] * factor * weight.x[i];
      store_numbers(p.y, out + c, x);
    });
  }
};

template <int kCount>
struct LayerNorm {
  static constexpr int kThreads = kNormThreads;
  using Params = NormParams;
  struct Shared {
    float sums[2][kNormWarps];
  };

  static CAPTION_DEVICE void run(const Params& p) {
    wait_for_launches_before();
    auto& shared = shared_memory<Shared>();
    const float* const row = p.x + p.in.offset(block_x());
    const std::int64_t out = p.out.offset(block_x());
    const auto dim = static_cast<float>(p.in.dim);
    float own = 0;
    for_each_pack<kCount>(row, p.in.dim, [&](int, const Packed<float, kCount>& x) {
      for (int i = 0; i < kCount; ++i) own += x.x[i];
    });
    const float mean = divide(sum_of_block(shared.sums[0], own), dim);
    float squares = 0;
    for_each_pack<kCount>(row, p.in.dim, [&](int, const Packed<float, kCount>& x) {
      for (int i = 0; i < kCount; ++i) squares = fused(x.x[i] - mean, x.x[i] - mean, squares);
    });
    const float variance = divide(sum_of_block(shared.sums[1], squares), dim);
    const float factor = divide(1.0F, square_root(variance + p.eps));
    for_each_pack<kCount>(row, p.in.dim, [&](int c, Packed<float, kCount> x) {
      const Packed<float, kCount> weight = load_numbers<kCount>(p.weight, c);
      const Packed<float, kCount> bias = load_numbers<kCount>(p.bias, c);
      for (int i = 0; i < kCount; ++i) {
        x.x[i] = fused((x.x[i] - mean) * factor, weight.x[i], bias.x[i]);
      }
      store_numbers(p.y, out + c, x);
    });
  }
};

template <template <int> class Kernel>
void launch_norm(Stream& stream, const NormInput& input, View y) {
  const NormParams params{.x = static_cast<const float*>(input.x.raw()),
                          .weight = numbers_of(input.weight),
                          .bias = numbers_of(input.bias),
                          .y = numbers_of(y),
                          .in = vectors_of(input.x),
                          .out = vectors_of(y),
                          .eps = input.eps};
  const Grid grid{.x = count_vectors(y)};
  if (choose_pack({input.x, input.weight, input.bias, y}) == 4) {
    return launch_dependent<Kernel<4>>(stream, grid, params);
  }
  launch_dependent<Kernel<1>>(stream, grid, params);
}

}  // namespace
}  // namespace caption::kernels::cuda

namespace caption::kernels::impl {

void rms_norm(Cuda, Stream& stream, const NormInput& input, View y) {
  cuda::launch_norm<cuda::RmsNorm>(stream, input, y);
}

void layer_norm(Cuda, Stream& stream, const NormInput& input, View y) {
  cuda::launch_norm<cuda::LayerNorm>(stream, input, y);
}

}  // namespace caption::kernels::impl
