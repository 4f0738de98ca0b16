// kernels/cpu/panel_numbers.h: where the scales or the offsets of a panel are packed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/packed_weight.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace caption::kernels::cpu {

// A panel's scales or offsets, [groups, 32], or their units, [units, 32]. The matrix's groups,
// which may be several of the panel's, are packed at the end and then copied to where they are
// repeated.
class PanelNumbers {
 public:
  // `numbers` [panels, groups, 32], or empty.
  PanelNumbers(Tensor& numbers, std::int64_t panel, std::int64_t num_stored)
      : dtype_(numbers.dtype()), num_stored_(num_stored) {
    if (numbers.empty()) return;
    num_groups_ = numbers.dim(1);
    group_bytes_ = kPanelFeatures * dtype_size_bytes(dtype_);
    begin_ = static_cast<std::byte*>(numbers.view().raw()) + position(panel * num_groups_);
  }

  DType dtype() const { return dtype_; }
  bool empty() const { return begin_ == nullptr; }
  // Where the groups of the matrix are packed, or those of the panel `further` panels later.
  void* stored(std::int64_t further = 0) const {
    return empty() ? nullptr : begin_ + position((further + 1) * num_groups_ - num_stored_);
  }
  void repeat(std::int64_t group_columns, std::int64_t stored_columns) const {
    const std::size_t end = num_stored_ == 1 && num_groups_ > 1 ? position(num_groups_ - 1) : 0;
    if (end > 0) std::memcpy(begin_, begin_ + end, group_bytes_);
    for (std::size_t done = group_bytes_; done < end; done *= 2) {
      std::memcpy(begin_ + done, begin_, std::min(done, end - done));
    }
    // The place of a stored group is never before one that it is copied to.
    for (std::int64_t g = 0; end == 0 && num_stored_ < num_groups_ && g < num_groups_; ++g) {
      const std::int64_t from = num_groups_ - num_stored_ + g * group_columns / stored_columns;
      std::memmove(begin_ + position(g), begin_ + position(from), group_bytes_);
    }
  }

 private:
  std::size_t position(std::int64_t group) const {
    return static_cast<std::size_t>(group) * group_bytes_;
  }

  DType dtype_;
  std::int64_t num_stored_;
  std::int64_t num_groups_ = 0;
  std::size_t group_bytes_ = 0;
  std::byte* begin_ = nullptr;
};

// All numbers of the groups of a panel (packed_weight.h).
struct PanelGroups {
  PanelNumbers scales;
  PanelNumbers offsets;
  PanelNumbers scale_units;
  PanelNumbers offset_units;
};

}  // namespace caption::kernels::cpu
