// kernels/packed_weight.h: a dense layer's weight in the order a device's kernels read it, made
// once at load.
//
//   kRows    [N, K] as checkpoints hold it (f32, bf16 or f16): borrowed, used where it is mapped.
//            The kernels widen it to f32: products and sums are f32.
//   kPanels  bf16, owned. The kernels round activations to bf16 and sum products in f32 (BF16 dot
//            product instructions). Panels of 32 features; in a panel, for each pair of columns
//            (2p, 2p + 1), the 32 features' two numbers side by side:
//              panels[n / 32][k / 2][n % 32][k % 2]
//            the order that AVX512-BF16 and AMX read (Intel's "VNNI" layout). Missing features and
//            an odd last column are zeros.
#pragma once

#include <cstdint>

#include "backend/cpu_tier.h"
#include "backend/thread_pool.h"
#include "tensor/tensor.h"

namespace caption::kernels {

inline constexpr std::int64_t kPanelFeatures = 32;

// Moves, does not copy. Immutable once made: any number of threads may read it.
class PackedWeight {
 public:
  enum class Layout { kRows, kPanels };

  PackedWeight() = default;
  // Borrows `rows` [N, K], as kRows. Implicit: a plain matrix is a weight.
  PackedWeight(ConstView rows);  // NOLINT(google-explicit-constructor)
  // Panels of `rows` [N, K] bf16, dense.
  static PackedWeight pack_panels(ThreadPool& pool, ConstView rows);

  Layout layout() const { return panels_.empty() ? Layout::kRows : Layout::kPanels; }
  bool empty() const { return num_features_ == 0; }
  std::int64_t num_features() const { return num_features_; }  // N
  std::int64_t num_columns() const { return num_columns_; }    // K
  std::int64_t size_bytes() const;

  // kRows only.
  ConstView rows() const { return rows_; }
  // kPanels only: [panels, pairs, kPanelFeatures, 2] bf16.
  ConstView panels() const { return panels_.view(); }

 private:
  ConstView rows_;
  Tensor panels_;
  std::int64_t num_features_ = 0;
  std::int64_t num_columns_ = 0;
};

// Whether the tier's kernels are faster on panels of bf16 weights than on rows.
bool prefers_panels(CpuTier tier);

}  // namespace caption::kernels
