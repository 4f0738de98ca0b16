// kernels/packed_weight.h: a dense layer's weight in the order a device's kernels read it, made
// once at load.
//
//   kRows     [N, K] as checkpoints hold it (f32, bf16 or f16): borrowed, used where it is mapped.
//             The kernels widen it to f32: products and sums are f32.
// The others are owned, in panels of 32 features, missing features being zeros:
//   kPanels   W16. For each pair of columns (2p, 2p + 1) the 32 features' two numbers side by side:
//               panels[n / 32][k / 2][n % 32][k % 2] bf16
//             the order that AVX512-BF16 and AMX read (Intel's "VNNI" layout). Activations are
//             rounded to bf16, sums of products are f32; an odd last column is followed by zeros.
//   kPanels8  W8: for each pair of columns 64 bytes of codes, and for each group of columns a scale
//             per feature. Activations are rounded to bf16; a group's products with the codes are
//             summed in f32 and the sum is scaled, group after group.
//   kPanels4  W4 and W4-LUT, the same with 32 bytes per pair: each 4-bit code is looked up in a
//             codebook of bf16; an offset per group, where there is one, meets the group's sum of
//             activations.
//   kPanels8A8  W8 with a scale per row of the matrix; activations are rounded to 8 bits, a scale
//             per row of theirs: sums of products are exact integers.
//               panels[n / 32][k / 4][n % 32][k % 4] u8 = code + 128
#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "backend/cpu_tier.h"
#include "backend/thread_pool.h"
#include "tensor/quantised_matrix.h"
#include "tensor/tensor.h"

namespace caption::kernels {

inline constexpr std::int64_t kPanelFeatures = 32;

// Rows [first, first + count) of a quantised matrix of `num_columns`, as wanted by pack(); called
// by several threads at a time.
using QuantisedRows = std::function<QuantisedMatrix(std::int64_t first, std::int64_t count)>;

// Moves, does not copy. Immutable once made: any number of threads may read it.
class PackedWeight {
 public:
  enum class Layout { kRows, kPanels, kPanels8, kPanels4, kPanels8A8 };

  PackedWeight() = default;
  // Borrows `rows` [N, K], as kRows. Implicit: a plain matrix is a weight.
  PackedWeight(ConstView rows);  // NOLINT(google-explicit-constructor)
  // Panels of `rows` [N, K] bf16, dense.
  static PackedWeight pack_panels(ThreadPool& pool, ConstView rows);
  // Panels of a quantised matrix [N, K] that `rows` yields 32 rows at a time, all of one format:
  // kPanels8 of codes of 8 bits, kPanels4 of 4.
  static PackedWeight pack_quantised(ThreadPool& pool, std::int64_t num_rows,
                                     const QuantisedRows& rows);
  // kPanels8A8; the codes are of 8 bits, a scale per row.
  static PackedWeight pack_8a8(ThreadPool& pool, std::int64_t num_rows, const QuantisedRows& rows);

  Layout layout() const { return layout_; }
  bool empty() const { return num_features_ == 0; }
  std::int64_t num_features() const { return num_features_; }  // N
  std::int64_t num_columns() const { return num_columns_; }    // K
  std::int64_t size_bytes() const;

  // kRows only.
  ConstView rows() const { return rows_; }
  // [panels, ...]: as above. kPanels8 [panels, pairs, 64] i8 and kPanels4 [panels, pairs, 32] u8,
  // in the order of kernels/cpu/tier.h (panel8_position(), panel4_position()).
  ConstView panels() const { return panels_.view(); }
  // kPanels8, kPanels4: [panels, groups, 32] f32; kPanels8A8: [panels, 32].
  ConstView scales() const { return scales_.view(); }
  // kPanels4, like scales; empty: none.
  ConstView offsets() const { return offsets_.view(); }
  std::int64_t group_columns() const { return group_columns_; }
  const std::array<BF16, 16>& codebook() const { return codebook_; }

  // Writes row n as f32 [K].
  void unpack_row(std::int64_t n, float* to) const;

 private:
  void pack_panel(const QuantisedMatrix& rows, std::int64_t panel);

  Layout layout_ = Layout::kRows;
  ConstView rows_;
  Tensor panels_;
  Tensor scales_;
  Tensor offsets_;
  std::array<BF16, 16> codebook_{};
  std::int64_t group_columns_ = 0;
  std::int64_t num_features_ = 0;
  std::int64_t num_columns_ = 0;
};

// Whether the tier's kernels are faster on panels of bf16 weights than on rows.
bool prefers_panels(CpuTier tier);

}  // namespace caption::kernels
