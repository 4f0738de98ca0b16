#include "kernels/packed_weight.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace caption::kernels {
namespace {

void pack_panel(ConstView rows, std::int64_t panel, BF16* to) {
  const std::int64_t num_columns = rows.dim(1);
  const std::int64_t first = panel * kPanelFeatures;
  const std::int64_t count = std::min(kPanelFeatures, rows.dim(0) - first);
  const std::int64_t pairs = (num_columns + 1) / 2;
  std::fill_n(to, pairs * kPanelFeatures * 2, BF16{});
  for (std::int64_t n = 0; n < count; ++n) {
    const BF16* const from = rows.as<BF16>() + (first + n) * rows.row_stride();
    for (std::int64_t k = 0; k < num_columns; ++k) {
      to[(k / 2 * kPanelFeatures + n) * 2 + k % 2] = from[k];
    }
  }
}

}  // namespace

PackedWeight::PackedWeight(ConstView rows) : rows_(rows) {
  if (rows.empty()) return;
  CAPTION_CHECK(rows.shape().rank() == 2, "a weight of shape " + rows.shape().to_string());
  num_features_ = rows.dim(0);
  num_columns_ = rows.dim(1);
}

PackedWeight PackedWeight::pack_panels(ThreadPool& pool, ConstView rows) {
  CAPTION_CHECK(rows.shape().rank() == 2 && rows.dtype() == DType::kBF16 && rows.dim(0) > 0 &&
                    rows.dim(1) > 0,
                "panels of a weight of shape " + rows.shape().to_string() + ", " +
                    std::string(dtype_name(rows.dtype())) + "; bf16 was wanted");
  const std::int64_t num_panels = (rows.dim(0) + kPanelFeatures - 1) / kPanelFeatures;
  const std::int64_t pairs = (rows.dim(1) + 1) / 2;
  PackedWeight packed;
  packed.num_features_ = rows.dim(0);
  packed.num_columns_ = rows.dim(1);
  packed.panels_ = Tensor(DType::kBF16, {num_panels, pairs, kPanelFeatures, 2});
  BF16* const panels = packed.panels_.as<BF16>();
  pool.parallel_for(num_panels, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t panel = begin; panel < end; ++panel) {
      pack_panel(rows, panel, panels + panel * pairs * kPanelFeatures * 2);
    }
  });
  return packed;
}

std::int64_t PackedWeight::size_bytes() const {
  if (layout() == Layout::kPanels) return static_cast<std::int64_t>(panels_.size_bytes());
  return num_features_ * num_columns_ * static_cast<std::int64_t>(dtype_size_bytes(rows_.dtype()));
}

bool prefers_panels(CpuTier tier) { return tier == CpuTier::kAvx512Bf16; }

}  // namespace caption::kernels
