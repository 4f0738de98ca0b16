// kernels/cpu/panel_rows.h: what packing takes, and where it puts panels.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/stream.h"
#include "kernels/cpu/packed_weight.h"
#include "kernels/cpu/tier.h"
#include "tensor/quantised_matrix.h"
#include "tensor/tensor.h"

namespace caption::kernels::cpu {

// The rows of a panel, `stride_bytes` apart; null where the matrix has none.
class PanelRows {
 public:
  PanelRows(const void* first, std::int64_t count, std::int64_t stride_bytes) {
    for (std::int64_t n = 0; n < count; ++n) {
      rows_[static_cast<std::size_t>(n)] =
          static_cast<const std::uint8_t*>(first) + n * stride_bytes;
    }
  }
  explicit PanelRows(std::span<const std::uint8_t* const> rows) {
    std::copy(rows.begin(), rows.end(), rows_.begin());
  }
  const std::uint8_t* const* rows() const { return rows_.data(); }
  PanelRowsArgs args(std::int64_t length, void* to, std::uint32_t flipped = 0) const {
    return {.rows = rows_.data(), .length = length, .to = to, .flipped = flipped};
  }

 private:
  std::array<const std::uint8_t*, kPanelFeatures> rows_{};
};

// Packs the panels of a part of a matrix whose codes are words of a file (CodeOrder), of which the
// tier packs the order; `part` has a multiple of kPanelFeatures rows. Panels begin `panel_bytes`
// apart from `to` on.
void pack_file_words(const Tier& tier, const QuantisedMatrix& part, std::uint8_t* to,
                     std::int64_t panel_bytes);

// Memory on the stream's device for a part of a placed weight.
inline Tensor allocate_weight(Stream& stream, DType dtype, const Shape& shape) {
  if (stream.device() != Device::kCpu || stream.arena() == nullptr) {
    return Tensor(dtype, shape, stream.device());
  }
  const auto size_bytes = static_cast<std::size_t>(shape.num_elements()) * dtype_size_bytes(dtype);
  return Tensor(stream.arena()->allocate(size_bytes), dtype, shape);
}

}  // namespace caption::kernels::cpu
