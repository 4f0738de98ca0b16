#include "model/internal/attention_windows.h"

#include "base/error.h"

namespace caption::model {
namespace {

// A range of windows along one axis that have the same extent.
struct AxisPart {
  std::int64_t first = 0;   // first row or column of units
  std::int64_t end = 0;     // one past the last
  std::int64_t extent = 0;  // units of one window along the axis
};

std::vector<AxisPart> divide_axis(std::int64_t units, std::int64_t edge) {
  const std::int64_t whole = units / edge * edge;
  std::vector<AxisPart> parts;
  if (whole > 0) parts.push_back({0, whole, edge});
  if (whole < units) parts.push_back({whole, units, units - whole});
  return parts;
}

}  // namespace

AttentionWindows divide_into_windows(std::int64_t rows, std::int64_t columns, std::int64_t edge) {
  CAPTION_CHECK(rows >= 1 && columns >= 1 && edge >= 1, "windows of nothing");
  AttentionWindows windows;
  windows.order.reserve(static_cast<std::size_t>(rows * columns));
  const auto append_window = [&](std::int64_t top, std::int64_t left, const AxisPart& down,
                                 const AxisPart& across) {
    for (std::int64_t row = top; row < top + down.extent; ++row) {
      for (std::int64_t column = left; column < left + across.extent; ++column) {
        windows.order.push_back(static_cast<std::int32_t>(row * columns + column));
      }
    }
  };
  for (const AxisPart& down : divide_axis(rows, edge)) {
    for (const AxisPart& across : divide_axis(columns, edge)) {
      for (std::int64_t top = down.first; top < down.end; top += down.extent) {
        for (std::int64_t left = across.first; left < across.end; left += across.extent) {
          append_window(top, left, down, across);
        }
      }
      const std::int64_t window_units = down.extent * across.extent;
      const std::int64_t units = (down.end - down.first) * (across.end - across.first);
      windows.sizes.push_back({.num_windows = units / window_units, .window_units = window_units});
    }
  }
  return windows;
}

}  // namespace caption::model
