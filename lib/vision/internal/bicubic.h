// vision/internal/bicubic.h: the separable uint8 filter behind resize_bicubic_antialias, on a
// window of the output.
//
// Source: ATen aten/src/ATen/native/cpu/UpSampleKernel.cpp (uint8, antialias): Keys' cubic with
// a = -0.5, widened by the scale when shrinking; weights in double, then int16 with a precision
// common to the axis; columns first, rounded to uint8, then rows. models.md §1.7.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cpu_tier.h"
#include "video/clip.h"
#include "vision/internal/filter_loops.h"

namespace caption::vision::internal {

// A rectangle of the resized image, in its pixels.
struct Window {
  int top_px = 0;
  int left_px = 0;
  int height_px = 0;
  int width_px = 0;
};

// The filter along one axis, for outputs [first_out, first_out + num_out).
class ResizeAxis {
 public:
  // in_px, out_px >= 1; the window lies inside [0, out_px).
  ResizeAxis(int in_px, int out_px, int first_out, int num_out);

  // An axis that keeps its size is copied, not filtered.
  bool is_identity() const { return identity_; }
  int num_out() const { return static_cast<int>(first_in_.size()); }
  // Of an axis that is filtered; valid as long as this.
  AxisTaps taps() const;
  // Inputs that any output of the window reads: [begin_in, end_in).
  int begin_in() const { return begin_in_; }
  int end_in() const { return end_in_; }

 private:
  bool identity_ = false;
  int precision_bits_ = 0;
  int begin_in_ = 0;
  int end_in_ = 0;
  std::size_t max_taps_ = 0;
  std::vector<int> first_in_;
  std::vector<int> num_taps_;
  std::vector<std::int16_t> weights_;  // [num_out, max_taps]
};

// All tiers give the same bits. The CPU must have the one asked for.
const FilterLoops& filter_loops(CpuTier tier);

// The window of `frame` resized to out_height x out_width; `out` is RGB8
// [window.height, window.width, 3]. `rows` and `columns` were made for the window's extents.
void resize_window(const FilterLoops& loops, const video::Frame& frame, const ResizeAxis& rows,
                   const ResizeAxis& columns, std::span<std::uint8_t> out);

}  // namespace caption::vision::internal
