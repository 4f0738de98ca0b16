// kernels/cuda/code_rows.cuh: rows of x on their way to codes of 8 bits with a scale per row.
//
// Traffic  x twice in, the second time from L1 or L2, 1 byte per column out.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/code_layout.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/numbers.cuh"

namespace caption::kernels::cuda {

inline constexpr int kThreadsOfRows = 128;
inline constexpr int kWarpsOfRows = kThreadsOfRows / 32;
inline constexpr int kPack = 4;  // columns of a thread: those of a group of the matrix may be fewer

struct RowsParams {
  ConstNumbers x;
  std::int64_t x_stride;
  const std::int32_t* column_order;
  CodeShape shape;
  int rows;
  int packed_columns;
  bool has_packs;       // kPack columns of x may be loaded at once
  int lanes_per_group;  // a power of 2; kPack columns each
  void* to;
  float* group_sums;
  float* scales;
};

// Columns packed .. packed + 3 of a row of x; zeros where the matrix has none. They are of one
// group.
CAPTION_DEVICE Packed<float, kPack> load_columns(const RowsParams& p, std::int64_t row,
                                                 int packed) {
  const CodeShape& shape = p.shape;
  const int within = packed % shape.packed_group;
  const int first = packed / shape.packed_group * shape.group_columns + within;
  const bool is_inside =
      within + kPack <= shape.group_columns && first + kPack <= shape.num_columns;
  if (p.has_packs && is_inside && p.column_order == nullptr) {
    return load_numbers<kPack>(p.x, row + first);
  }
  Packed<float, kPack> columns = {};
  for (int i = 0; i < kPack; ++i) {
    const int stored = stored_column(shape, packed + i);
    if (stored < 0) continue;
    const int column = p.column_order == nullptr ? stored : load(p.column_order + stored);
    columns.x[i] = load_numbers<1>(p.x, row + column).x[0];
  }
  return columns;
}

// A block per row. Codes has the largest magnitude of a code, kLargest, and rounded(), which gives
// the codes of kPack numbers, whose magnitudes are at most kLargest, but for a rounding.
template <class Codes>
struct QuantiseRows {
  static constexpr Gpus kGpus = gpus_of<Codes>();
  static constexpr int kThreads = kThreadsOfRows;
  using Params = RowsParams;
  struct Shared {
    std::uint32_t largest[kWarpsOfRows];
  };
  static constexpr float kSmallestMagnitude = 0x1p-100F;

  static CAPTION_DEVICE void run(const Params& p) {
    const std::int64_t row = block_x() * p.x_stride;
    const std::uint32_t bits = largest_magnitude(p, row);
    const bool is_finite = bits < 0x7F800000u;
    const float largest = float_of_bits(bits);
    float inverse = 0;
    if (is_finite && largest > kSmallestMagnitude) inverse = divide(Codes::kLargest, largest);
    auto* const to = static_cast<std::uint8_t*>(p.to) + std::int64_t{block_x()} * p.packed_columns;
    for (int packed = thread_index() * kPack; packed < p.packed_columns;
         packed += kThreadsOfRows * kPack) {
      Packed<std::uint8_t, kPack> codes = {};
      if (is_finite) {
        Packed<float, kPack> columns = load_columns(p, row, packed);
        for (int i = 0; i < kPack; ++i) columns.x[i] *= inverse;
        codes = Codes::rounded(columns);
      }
      store(reinterpret_cast<Packed<std::uint8_t, kPack>*>(to + packed), codes);
    }
    if (thread_index() == 0) {
      const float scale = is_finite ? divide(largest, Codes::kLargest) : float_of_bits(0x7FC00000u);
      store(p.scales + block_x(), scale);
    }
  }

  // The bits of magnitudes are in the order of their values, infinity and NaN last.
  static CAPTION_DEVICE std::uint32_t largest_magnitude(const Params& p, std::int64_t row) {
    std::uint32_t largest = 0;
    for (int packed = thread_index() * kPack; packed < p.packed_columns;
         packed += kThreadsOfRows * kPack) {
      const Packed<float, kPack> columns = load_columns(p, row, packed);
      for (int i = 0; i < kPack; ++i) {
        const std::uint32_t bits = bits_of_float(columns.x[i]) & 0x7FFFFFFFu;
        largest = bits > largest ? bits : largest;
      }
    }
    for (int mask = 16; mask > 0; mask /= 2) {
      const std::uint32_t other = shuffle(largest, lane_index() ^ mask);
      largest = other > largest ? other : largest;
    }
    auto& shared = shared_memory<Shared>();
    if (lane_index() == 0) shared.largest[warp_index()] = largest;
    sync_block();
    for (int warp = 0; warp < kWarpsOfRows; ++warp) {
      const std::uint32_t other = shared.largest[warp];
      largest = other > largest ? other : largest;
    }
    return largest;
  }
};

// For codes of e4m3, on the GPUs that have them (kernels/cuda/fp8_rows.cu).
void quantise_rows_to_e4m3(Stream& stream, Grid grid, const RowsParams& params);

}  // namespace caption::kernels::cuda
