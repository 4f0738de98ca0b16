// model/internal/attention_windows.h: the windows inside which the layers of a vision tower attend.
// Source: transformers 4.57.6 modeling_qwen2_5_vl.py (get_window_index). The reference keeps the
// windows row by row; here windows of equal size follow each other, so that one call of attention()
// (kernels/attention.h) takes them all.
#pragma once

#include <cstdint>
#include <vector>

namespace caption::model {

// Consecutive windows of one size.
struct EqualWindows {
  std::int64_t num_windows = 0;
  std::int64_t window_units = 0;  // units of one window

  friend bool operator==(const EqualWindows&, const EqualWindows&) = default;
};

struct AttentionWindows {
  // The row-major indices of the units in the order of the windows, and row by row inside one.
  std::vector<std::int32_t> order;
  std::vector<EqualWindows> sizes;  // at most four: whole windows, and smaller ones at two borders
};

// Divides a grid of rows x columns units (vision tokens) into windows of `edge` x `edge` units from
// its first row and column; those at the last ones have the units that are left. All are >= 1.
AttentionWindows divide_into_windows(std::int64_t rows, std::int64_t columns, std::int64_t edge);

}  // namespace caption::model
