// vision/internal/resize.h: the separable uint8 filter of resize_antialias(), restricted to a
// window of the output.
//
// Source: ATen aten/src/ATen/native/cpu/UpSampleKernel.cpp (uint8, antialias): a triangle, or Keys'
// cubic with a = -0.5, widened by the scale when shrinking; weights in double, then int16 with a
// precision common to the axis; along the width first, rounded to uint8, then along the height.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cpu_tier.h"
#include "video/clip.h"
#include "vision/internal/filter_loops.h"
#include "vision/preprocess.h"

namespace caption::vision::internal {

// A rectangle of the resized image, in pixels of that image.
struct Window {
  int top_px = 0;
  int left_px = 0;
  int height_px = 0;
  int width_px = 0;
};

// The filter along one axis, for outputs [first_out, first_out + num_out).
class ResizeAxis {
 public:
  // in_px, out_px >= 1; the window must be inside [0, out_px). Throws Error(kInternal) otherwise.
  ResizeAxis(Resample resample, int in_px, int out_px, int first_out, int num_out);

  // An axis that keeps its size is copied, not filtered.
  bool is_identity() const { return identity_; }
  int num_out() const { return static_cast<int>(first_in_.size()); }
  // The taps of an axis that is not an identity; valid as long as this object.
  AxisTaps taps() const;
  // The range [begin_in, end_in) of inputs that the outputs of the window read.
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

// The filter loops of a tier, which the CPU must support. All tiers give the same bits.
const FilterLoops& filter_loops(CpuTier tier);

// Computes a window of `frame` resized to the output sizes of `rows` and `columns`. `out` is RGB8
// [rows.num_out(), columns.num_out(), 3]. Throws Error(kInternal) when the sizes disagree.
void resize_window(const FilterLoops& loops, const video::Frame& frame, const ResizeAxis& rows,
                   const ResizeAxis& columns, std::span<std::uint8_t> out);

}  // namespace caption::vision::internal
