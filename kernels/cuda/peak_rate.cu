// Eight warps per block, each with eight chains of products that do not wait for each other.
// Operands stay in registers. is_never() depends on all sums, so that the compiler keeps the
// products, and holds for none that these operands give. Measured on no GPU.
#include "kernels/peak_rate.h"

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/weight_forms.h"

namespace caption::kernels::cuda {
namespace {

constexpr int kChains = 8;
constexpr int kRounds = 16;

// Multiplies [16, 16] by [16, 8] of bf16, or of f16.
template <bool kHasBf16>
struct Products16 {
  static constexpr double kFlopsOfWarp = 4096;
  static constexpr int kSteps = 1;
  FragmentA a;
  FragmentB b;
  FragmentC c[kChains] = {};

  CAPTION_DEVICE explicit Products16(std::uint32_t lane) {
    // Numbers from 1 to 2 as bf16 and between 1 and 2 as f16, of differing bits.
    const std::uint32_t one = kHasBf16 ? 0x3F803F80u : 0x3C003C00u;
    for (int i = 0; i < 4; ++i)
      a.pair[i] = one + (lane * 0x00050003u + i * 0x00110007u) % 0x00400040u;
    for (int i = 0; i < 2; ++i)
      b.pair[i] = one + (lane * 0x00030005u + i * 0x00070011u) % 0x00400040u;
  }
  CAPTION_DEVICE void multiply(int chain) {
    if constexpr (kHasBf16) {
      mma_bf16(c[chain], a, b);
    } else {
      mma_f16(c[chain], a, b);
    }
  }
  CAPTION_DEVICE bool is_never() const {
    float sum = 0;
    CAPTION_UNROLL
    for (int i = 0; i < kChains; ++i) sum += c[i].sum[0] + c[i].sum[1] + c[i].sum[2] + c[i].sum[3];
    return sum != sum;
  }
};

// Multiplies [16, 32] by [32, 8] of 8-bit integers.
struct Products8 {
  static constexpr double kFlopsOfWarp = 8192;
  static constexpr int kSteps = 1;
  FragmentA8 a;
  FragmentB8 b;
  FragmentC32 c[kChains] = {};

  CAPTION_DEVICE explicit Products8(std::uint32_t lane) {
    for (int i = 0; i < 4; ++i)
      a.four[i] = 0x01020304u * (lane % 7 + 1) + static_cast<std::uint32_t>(i);
    for (int i = 0; i < 2; ++i)
      b.four[i] = 0x04010302u * (lane % 5 + 1) + static_cast<std::uint32_t>(i);
  }
  CAPTION_DEVICE void multiply(int chain) { mma_s8(c[chain], a, b); }
  CAPTION_DEVICE bool is_never() const {
    std::int32_t sum = 0;
    CAPTION_UNROLL
    for (int i = 0; i < kChains; ++i) sum ^= c[i].sum[0] ^ c[i].sum[1] ^ c[i].sum[2] ^ c[i].sum[3];
    return sum == 0x5A5A5A5B;
  }
};

// A lane's own numbers.
struct Products32 {
  static constexpr double kFlopsOfWarp = 2 * 32;
  static constexpr int kSteps = 16;  // per turn of the loop, whose own instructions then are few
  float a;
  float b = 0.125F;
  float c[kChains];

  // Chains differ, or they would be one.
  CAPTION_DEVICE explicit Products32(std::uint32_t lane)
      : a(1.0F - static_cast<float>(lane) * 0x1p-7F) {
    for (int i = 0; i < kChains; ++i) c[i] = static_cast<float>(i);
  }
  CAPTION_DEVICE void multiply(int chain) { c[chain] = fused(c[chain], a, b); }
  CAPTION_DEVICE bool is_never() const {
    float sum = 0;
    CAPTION_UNROLL
    for (int i = 0; i < kChains; ++i) sum += c[i];
    return sum != sum;
  }
};

template <class Products>
struct MultiplyAdds {
  static constexpr int kThreads = static_cast<int>(kPeakThreads);
  static constexpr double kFlopsOfBlock =
      kThreads / 32 * kRounds * Products::kSteps * kChains * Products::kFlopsOfWarp;
  struct Params {
    float* sums;  // [kThreads]
  };
  struct Shared {};

  static CAPTION_DEVICE void run(const Params& p) {
    Products products(static_cast<std::uint32_t>(lane_index()));
    CAPTION_NO_UNROLL
    for (int round = 0; round < kRounds; ++round) {
      CAPTION_UNROLL
      for (int step = 0; step < Products::kSteps * kChains; ++step) {
        products.multiply(step % kChains);
      }
    }
    if (products.is_never()) store(p.sums + thread_index(), 0.0F);
  }
};

template <class Products>
double launch_products(Stream& stream, std::int64_t blocks, View sums) {
  using Kernel = MultiplyAdds<Products>;
  launch<Kernel>(stream, {.x = static_cast<unsigned>(blocks)},
                 {.sums = static_cast<float*>(sums.raw())});
  return Kernel::kFlopsOfBlock * static_cast<double>(blocks);
}

}  // namespace
}  // namespace caption::kernels::cuda

namespace caption::kernels::impl {

double run_multiply_adds(Cuda, Stream& stream, PeakArithmetic arithmetic, std::int64_t blocks,
                         View sums) {
  switch (arithmetic) {
    case PeakArithmetic::kInt8: return cuda::launch_products<cuda::Products8>(stream, blocks, sums);
    case PeakArithmetic::kF32: return cuda::launch_products<cuda::Products32>(stream, blocks, sums);
    case PeakArithmetic::k16Bits: break;
  }
  return cuda::dtype_of_products(stream.context()) == DType::kBF16
             ? cuda::launch_products<cuda::Products16<true>>(stream, blocks, sums)
             : cuda::launch_products<cuda::Products16<false>>(stream, blocks, sums);
}

}  // namespace caption::kernels::impl
