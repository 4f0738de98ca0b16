#include "kernels/embedding.h"

#include <string>

#include "base/error.h"
#include "kernels/cpu/parallel.h"
#include "tensor/dtype.h"

namespace caption::kernels::impl {

namespace {

// Row `id` of panels: its pair of columns p is the 32-bit word p * 32 + id % 32 of its panel.
void read_panel_row(ConstView panels, std::int64_t id, std::int64_t dim, float* to) {
  const BF16* const pairs =
      panels.as<BF16>() + id / kPanelFeatures * panels.row_stride() + id % kPanelFeatures * 2;
  for (std::int64_t c = 0; c < dim; ++c) {
    to[c] = to_float(pairs[c / 2 * 2 * kPanelFeatures + c % 2]);
  }
}

}  // namespace

void embedding(Cpu, Stream& stream, ConstView ids, const PackedWeight& table, View y) {
  const std::int32_t* const id = ids.as<std::int32_t>();
  const std::int64_t vocab = table.num_features();
  const std::int64_t dim = table.num_columns();
  for (std::int64_t t = 0; t < ids.dim(0); ++t) {
    CAPTION_CHECK(id[t] >= 0 && id[t] < vocab, "embedding: id " + std::to_string(id[t]) +
                                                   " is outside the vocabulary of " +
                                                   std::to_string(vocab));
  }
  float* const out = y.as<float>();
  if (table.layout() == PackedWeight::Layout::kPanels) {
    cpu::parallel_for(stream, ids.dim(0), dim, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        read_panel_row(table.panels(), id[t], dim, out + t * y.row_stride());
      }
    });
    return;
  }
  dispatch_float(table.rows().dtype(), [&](auto tag) {
    const auto* const rows = table.rows().as<decltype(tag)>();
    cpu::parallel_for(stream, ids.dim(0), dim, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        const auto* const from = rows + id[t] * table.rows().row_stride();
        float* const to = out + t * y.row_stride();
        for (std::int64_t c = 0; c < dim; ++c) to[c] = to_float(from[c]);
      }
    });
  });
}

}  // namespace caption::kernels::impl
