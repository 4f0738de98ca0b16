// kernels/cuda/code_fragments.cuh: codes as operands of tensor cores. A lane's 16 bytes are as
// kernels/cuda/code_layout.cuh says.
#pragma once

#include <cstdint>

#include "kernels/cuda/codes.h"
#include "kernels/cuda/primitives.cuh"
#include "tensor/dtype.h"

namespace caption::kernels::cuda {

// 16-bit numbers: small integers are added to the bits of a power of two whose unit in the last
// place is 1 (bf16: 128; f16: 1024), which then is subtracted; both steps are exact. `power`, a
// pair of them, comes with the launch (CodeOperand): nvcc 13.0 makes one instruction of a mask and
// bits in a register, and two of bits that it knows. Bytes would need two registers more, and
// blocks that have them (sm_90) are fewer.
CAPTION_DEVICE std::uint32_t pair_of_nibbles(BF16, std::uint32_t word, std::uint32_t power) {
  return add_bf16_pairs((word & 0x000F000Fu) | power, 0xC308C308u);  // 128 + n - 136
}
CAPTION_DEVICE std::uint32_t pair_of_nibbles(F16, std::uint32_t word, std::uint32_t power) {
  return add_f16_pairs((word & 0x000F000Fu) | power, 0xE408E408u);  // 1024 + n - 1032
}
// bf16 has room for 7 of the 8 bits; the sign chooses between -128 and -256.
CAPTION_DEVICE std::uint32_t pair_of_bytes(BF16, std::uint32_t word) {
  return add_bf16_pairs((word & 0x007F007Fu) | 0x43004300u, (word & 0x00800080u) | 0xC300C300u);
}
CAPTION_DEVICE std::uint32_t pair_of_bytes(F16, std::uint32_t word) {
  return add_f16_pairs((word & 0x00FF00FFu) ^ 0x64806480u, 0xE480E480u);  // 1024 + n + 128 - 1152
}

CAPTION_DEVICE void multiply_fragments(BF16, FragmentC& c, const FragmentA& a, const FragmentB& b) {
  mma_bf16(c, a, b);
}
CAPTION_DEVICE void multiply_fragments(F16, FragmentC& c, const FragmentA& a, const FragmentB& b) {
  mma_f16(c, a, b);
}

// Returns the fragment of a step of 16 columns, before scaling.
template <class T, CodeKind kKind>
struct CodeFragments {
  static constexpr int kSteps = kKind == CodeKind::kInt8 ? 2 : 4;
  struct Shared {};

  CAPTION_DEVICE CodeFragments(Shared&, const std::uint16_t* codebook, int)
      : power_(codebook[0] * 0x10001u) {}
  CAPTION_DEVICE FragmentA fragment(const Bytes16& codes, int step) const {
    FragmentA a;
    for (int r = 0; r < 4; ++r) {
      if constexpr (kKind == CodeKind::kInt8) {
        a.pair[r] = pair_of_bytes(T{}, codes.word[2 * step + r / 2] >> (8 * (r % 2)));
      } else {
        a.pair[r] = pair_of_nibbles(T{}, codes.word[step] >> (4 * r), power_);
      }
    }
    return a;
  }

 private:
  std::uint32_t power_;
};

// A table of all pairs of numbers, one per bank of shared memory: a lane reads its own copy.
template <class T>
struct CodeFragments<T, CodeKind::kTable4> {
  static constexpr int kSteps = 4;
  struct Shared {
    std::uint32_t pairs[256][32];
  };

  // Written by all threads of the block, which has `warps` warps; a barrier has to follow.
  CAPTION_DEVICE CodeFragments(Shared& shared, const std::uint16_t* codebook, int warps)
      : shared_(shared) {
    for (int i = warp_index(); i < 256; i += warps) {
      const std::uint32_t pair = codebook[i % 16] | static_cast<std::uint32_t>(codebook[i / 16])
                                                        << 16;
      store(&shared.pairs[i][lane_index()], pair);
    }
  }
  CAPTION_DEVICE FragmentA fragment(const Bytes16& codes, int step) const {
    FragmentA a;
    for (int r = 0; r < 4; ++r) {
      a.pair[r] = load(&shared_.pairs[codes.word[step] >> (8 * r) & 255u][lane_index()]);
    }
    return a;
  }

 private:
  const Shared& shared_;
};

}  // namespace caption::kernels::cuda
