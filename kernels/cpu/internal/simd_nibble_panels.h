// kernels/cpu/internal/simd_nibble_panels.h: Tier::panel4a8 for tiers that multiply unsigned by
// signed bytes (simd_gemm.h describes `Simd`).
//
// Layout    a register holds the codes of four columns of kWidth features in its low nibbles, and
//           of kWidth more features in its high nibbles. Codes are multiplied as they are, which
//           takes half the instructions of weights of 8 bits; over the columns k of a group
//             sum_k a[k] * (step * code[k] + base) = step * sum_k a[k] * code[k] + base * sum_k
//             a[k]
// Numerics  exact: as many quads are added as the tier's sums of products hold (kSafeQuads), the
//           sum of a group's activations, at most 128 * 128 in magnitude, fits into 16 bits, and
//           totals have 32.
#pragma once

#include <cstdint>

#include "kernels/cpu/internal/fetch_ahead.h"
#include "kernels/cpu/internal/quad_groups.h"
#include "kernels/cpu/internal/row_tiles.h"
#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {

static_assert(kMaxGroupQuads * 4 * 128 <= 32767);

// Multiplies kRows rows, from row m0 on, by kLoads registers of codes, which begin at byte
// `first_byte` of a quad. A register of codes has two of sums, for its low and its high nibbles.
template <class Simd, int kRows, int kLoads>
class NibbleTile {
 public:
  NibbleTile(const Integer4Args& args, std::int64_t m0, std::int64_t first_byte)
      : args_(args), m0_(m0), first_byte_(first_byte) {
    if constexpr (kRows == 1) {
      clear(totals_);
    } else {
      add_bases();
    }
  }

  void add(const QuadGroup& group) {
    const std::uint8_t* const steps = args_.steps + group.index * 2 * kPanelColumns;
    Integers factors[kSums];
#pragma GCC unroll 4
    for (int j = 0; j < kSums; ++j) {
      factors[j] = Simd::load_steps(steps + feature_of(j));
      if constexpr (kRows == 1) {
        const auto bases = Simd::widen_u8(steps + kPanelColumns + feature_of(j));
        const auto a_sum =
            Simd::broadcast_word(args_.a_sums[m0_ * args_.a_sums_stride + group.index]);
        totals_[0][j] = Simd::multiply_add_pairs(a_sum, bases, totals_[0][j]);
      }
    }
    for (std::int64_t first = group.first_quad; first < group.end_quad; first += kSafeQuads) {
      const std::int64_t end = first + kSafeQuads;
      add_products(first, end < group.end_quad ? end : group.end_quad, factors);
    }
  }

  void store() const {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int j = 0; j < kSums; ++j) {
        Simd::store_integers(args_.c + (m0_ + r) * args_.c_stride + feature_of(j), totals_[r][j]);
      }
    }
  }

 private:
  using Integers = typename Simd::Integers;
  static constexpr int kSums = 2 * kLoads;
  static constexpr std::int64_t kSafeQuads = Simd::kSafeQuads;

  std::int64_t feature_of(int j) const {
    return first_byte_ / 4 + j / 2 * Simd::kWidth + j % 2 * (kPanelColumns / 2);
  }

  // Sets the totals to the sums over all groups of base * (sum of the group's activations), two
  // groups at a time. It runs before the products, which need all registers. A single row waits for
  // memory and multiplies the bases of each group with its codes instead (add()).
  void add_bases() {
    Integers sums[kRows][kSums];
    clear(sums);
    const std::int64_t num_groups = (args_.num_quads + args_.group_quads - 1) / args_.group_quads;
    const std::int16_t* const a_sums = args_.a_sums + m0_ * args_.a_sums_stride;
    for (std::int64_t group = 0; group < num_groups; group += 2) {
      const std::uint8_t* const bases = args_.steps + (2 * group + 1) * kPanelColumns;
      const bool is_pair = group + 1 < num_groups;
      if (m0_ == 0) fetch_steps_of_next_panel(bases, num_groups);
      Integers both[kSums];
#pragma GCC unroll 4
      for (int j = 0; j < kSums; ++j) {
        both[j] = Simd::widen_u8(bases + feature_of(j));
        if (is_pair) {
          both[j] =
              Simd::pair_words(both[j], Simd::widen_u8(bases + 2 * kPanelColumns + feature_of(j)));
        }
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const std::int16_t* const two = a_sums + r * args_.a_sums_stride + group;
        const auto a_sum = is_pair ? Simd::broadcast_bytes(two) : Simd::broadcast_word(*two);
#pragma GCC unroll 4
        for (int j = 0; j < kSums; ++j) {
          sums[r][j] = Simd::multiply_add_pairs(a_sum, both[j], sums[r][j]);
        }
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int j = 0; j < kSums; ++j) totals_[r][j] = sums[r][j];
    }
  }

  // Fetches the steps and bases of two groups of the next panel into the second-level cache, since
  // its add_bases() would wait for them while nothing else is in flight.
  static void fetch_steps_of_next_panel(const std::uint8_t* bases, std::int64_t num_groups) {
    const std::uint8_t* const next = bases + num_groups * 2 * kPanelColumns;
    fetch_far_ahead(next, 0);
    fetch_far_ahead(next, 2 * kPanelColumns);
  }

  static void clear(Integers (&sums)[kRows][kSums]) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int j = 0; j < kSums; ++j) sums[r][j] = Simd::zero_integers();
    }
  }

  // Otherwise GCC keeps some of these numbers in registers during a loop that needs all of them.
  template <class Numbers>
  static void leave_in_memory(const Numbers& numbers) {
    if constexpr (kRows > 1) __asm__ volatile("" : : "r"(&numbers) : "memory");
  }

  // Adds the products of a quad to `sums`, or writes them there.
  template <bool kAdds>
  [[gnu::always_inline]] void multiply_quad(const std::uint8_t* codes, const std::int8_t* a,
                                            Integers (&sums)[kRows][kSums]) const {
    if (m0_ == 0) fetch_ahead(codes);
    Integers weights[kSums];
#pragma GCC unroll 2
    for (int j = 0; j < kLoads; ++j) {
      const auto both = Simd::load_bits(codes + j * 4 * Simd::kWidth);
      weights[2 * j] = Simd::low_nibbles(both);
      weights[2 * j + 1] = Simd::high_nibbles(both);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const auto x = Simd::broadcast_bytes(a + r * args_.a_stride);
#pragma GCC unroll 4
      for (int j = 0; j < kSums; ++j) {
        sums[r][j] = kAdds ? Simd::multiply_add_bytes(weights[j], x, sums[r][j])
                           : Simd::multiply_bytes(weights[j], x);
      }
    }
  }

  // Adds the products of the quads [quad, end), at most kSafeQuads, times the steps.
  void add_products(std::int64_t quad, std::int64_t end, const Integers (&factors)[kSums]) {
    const std::uint8_t* codes = args_.codes + quad * 2 * kPanelColumns + first_byte_;
    const std::int8_t* a = args_.a + m0_ * args_.a_stride + 4 * quad;
    Integers sums[kRows][kSums];
    leave_in_memory(totals_);
    leave_in_memory(factors);
    if constexpr (kRows == 1) {
      clear(sums);
    } else {
      multiply_quad<false>(codes, a, sums);
      ++quad, codes += 2 * kPanelColumns, a += 4;
    }
    for (; quad < end; ++quad, codes += 2 * kPanelColumns, a += 4) {
      multiply_quad<true>(codes, a, sums);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int j = 0; j < kSums; ++j) {
        totals_[r][j] = Simd::multiply_add_steps(sums[r][j], factors[j], totals_[r][j]);
      }
    }
  }

  const Integer4Args& args_;
  std::int64_t m0_, first_byte_;
  Integers totals_[kRows][kSums];
};

template <class Simd>
void panel4a8(const Integer4Args& args) {
  constexpr std::int64_t kLoadBytes = std::int64_t{4} * Simd::kWidth;
  constexpr std::int64_t kQuadBytes = 2 * kPanelColumns;
  for_row_tiles<Simd, Simd::kNibbleRows>(args.m, [&](std::int64_t m, auto rows) {
    // A single row reads the codes only once, so it uses whole lines of them.
    constexpr int kLoads = rows() == 1 ? static_cast<int>(kQuadBytes / kLoadBytes) : 1;
    for (std::int64_t byte = 0; byte < kQuadBytes; byte += kLoads * kLoadBytes) {
      NibbleTile<Simd, rows(), kLoads> tile(args, m, byte);
      for_each_quad_group(args, [&](const QuadGroup& group) { tile.add(group); });
      tile.store();
    }
  });
}

}  // namespace caption::kernels::cpu
