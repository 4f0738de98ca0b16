#include "vision/internal/bicubic.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace caption::vision::internal {
namespace {

constexpr int kChannels = 3;

// Keys' cubic convolution kernel with a = -0.5. The order of operations is ATen's, because its
// rounding decides the last bit of a weight.
double cubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1.0) return ((kA + 2.0) * x - (kA + 3.0)) * x * x + 1.0;
  if (x < 2.0) return (((x - 5.0) * x + 8.0) * x - 4.0) * kA;
  return 0.0;
}

struct Taps {
  int first_in = 0;
  std::vector<double> weights;  // sum to 1
};

// The taps of single outputs of one axis.
class TapSource {
 public:
  TapSource(int in_px, int out_px)
      : in_px_(in_px),
        scale_(static_cast<double>(in_px) / out_px),
        support_(scale_ >= 1.0 ? 2.0 * scale_ : 2.0),
        inverse_scale_(scale_ >= 1.0 ? 1.0 / scale_ : 1.0) {}

  void compute(int out_idx, Taps& taps) const {
    const double center = scale_ * (out_idx + 0.5);
    taps.first_in = std::max(static_cast<int>(center - support_ + 0.5), 0);
    const int end = std::min(static_cast<int>(center + support_ + 0.5), in_px_);
    taps.weights.clear();
    double total = 0.0;
    for (int in = taps.first_in; in < end; ++in) {
      const double weight = cubic((in - center + 0.5) * inverse_scale_);
      taps.weights.push_back(weight);
      total += weight;
    }
    if (total == 0.0) return;
    for (double& weight : taps.weights) weight /= total;
  }

 private:
  int in_px_;
  double scale_;
  double support_;
  double inverse_scale_;
};

// The largest number of fractional bits (at most 22) at which `max_weight` still fits an int16.
int precision_for(double max_weight) {
  int bits = 0;
  while (bits < 22 && static_cast<int>(0.5 + max_weight * (1 << (bits + 1))) < (1 << 15)) ++bits;
  return bits;
}

std::int16_t quantise(double weight, int bits) {
  const double scaled = weight * (1 << bits);
  return static_cast<std::int16_t>(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
}

std::uint8_t round_to_byte(std::int32_t sum, int bits) {
  return static_cast<std::uint8_t>(std::clamp(sum >> bits, 0, 255));
}

// One image row, filtered along its width.
void filter_columns(const std::uint8_t* row, const ResizeAxis& columns, std::uint8_t* out) {
  const int bits = columns.precision_bits();
  for (int x = 0; x < columns.num_out(); ++x) {
    std::int32_t red = 1 << (bits - 1);
    std::int32_t green = red;
    std::int32_t blue = red;
    const std::uint8_t* pixel = row + static_cast<std::ptrdiff_t>(columns.first_in(x)) * kChannels;
    for (const std::int16_t weight : columns.weights(x)) {
      red += weight * pixel[0];
      green += weight * pixel[1];
      blue += weight * pixel[2];
      pixel += kChannels;
    }
    out[0] = round_to_byte(red, bits);
    out[1] = round_to_byte(green, bits);
    out[2] = round_to_byte(blue, bits);
    out += kChannels;
  }
}

// All rows of `in` (whose first row is input row rows.begin_in()), filtered along the height.
void filter_rows(const std::vector<std::uint8_t>& in, std::size_t row_bytes, const ResizeAxis& rows,
                 std::span<std::uint8_t> out) {
  const int bits = rows.precision_bits();
  std::vector<std::int32_t> sums(row_bytes);
  for (int y = 0; y < rows.num_out(); ++y) {
    std::fill(sums.begin(), sums.end(), 1 << (bits - 1));
    const std::uint8_t* row =
        in.data() + static_cast<std::size_t>(rows.first_in(y) - rows.begin_in()) * row_bytes;
    for (const std::int16_t weight : rows.weights(y)) {
      for (std::size_t i = 0; i < row_bytes; ++i) sums[i] += weight * row[i];
      row += row_bytes;
    }
    std::uint8_t* out_row = out.data() + static_cast<std::size_t>(y) * row_bytes;
    for (std::size_t i = 0; i < row_bytes; ++i) out_row[i] = round_to_byte(sums[i], bits);
  }
}

}  // namespace

ResizeAxis::ResizeAxis(int in_px, int out_px, int first_out, int num_out)
    : identity_(in_px == out_px) {
  CAPTION_CHECK(
      in_px >= 1 && out_px >= 1 && first_out >= 0 && num_out >= 1 && first_out <= out_px - num_out,
      "resize window outside the image");
  if (identity_) {
    begin_in_ = first_out;
    end_in_ = first_out + num_out;
    for (int i = 0; i < num_out; ++i) first_in_.push_back(first_out + i);
    return;
  }
  const TapSource source(in_px, out_px);
  // The precision is common to the whole axis, so every output's weights count, not the window's.
  double max_weight = 0.0;
  Taps taps;
  for (int out = 0; out < out_px; ++out) {
    source.compute(out, taps);
    for (const double weight : taps.weights) max_weight = std::max(max_weight, weight);
    max_taps_ = std::max(max_taps_, taps.weights.size());
  }
  precision_bits_ = precision_for(max_weight);

  weights_.resize(static_cast<std::size_t>(num_out) * max_taps_);
  begin_in_ = in_px;
  for (int i = 0; i < num_out; ++i) {
    source.compute(first_out + i, taps);
    const int num_taps = static_cast<int>(taps.weights.size());
    std::transform(taps.weights.begin(), taps.weights.end(),
                   weights_.begin() + static_cast<std::ptrdiff_t>(i * max_taps_),
                   [this](double weight) { return quantise(weight, precision_bits_); });
    first_in_.push_back(taps.first_in);
    num_taps_.push_back(num_taps);
    begin_in_ = std::min(begin_in_, taps.first_in);
    end_in_ = std::max(end_in_, taps.first_in + num_taps);
  }
}

void resize_window(const video::Frame& frame, const ResizeAxis& rows, const ResizeAxis& columns,
                   std::span<std::uint8_t> out) {
  const std::size_t in_row_bytes = static_cast<std::size_t>(frame.width_px) * kChannels;
  const std::size_t row_bytes = static_cast<std::size_t>(columns.num_out()) * kChannels;
  CAPTION_CHECK(frame.rgb.size() == in_row_bytes * static_cast<std::size_t>(frame.height_px),
                "frame whose pixels do not match its size");
  CAPTION_CHECK(out.size() == row_bytes * static_cast<std::size_t>(rows.num_out()),
                "resize output of another size than its window");

  // Columns first, for the input rows the window needs.
  const int num_rows = rows.end_in() - rows.begin_in();
  std::vector<std::uint8_t> narrow(row_bytes * static_cast<std::size_t>(num_rows));
  for (int y = 0; y < num_rows; ++y) {
    const std::uint8_t* in_row =
        frame.rgb.data() + static_cast<std::size_t>(rows.begin_in() + y) * in_row_bytes;
    std::uint8_t* narrow_row = narrow.data() + static_cast<std::size_t>(y) * row_bytes;
    if (columns.is_identity()) {
      std::memcpy(narrow_row, in_row + static_cast<std::size_t>(columns.begin_in()) * kChannels,
                  row_bytes);
    } else {
      filter_columns(in_row, columns, narrow_row);
    }
  }
  if (rows.is_identity()) {
    std::memcpy(out.data(), narrow.data(), out.size());
  } else {
    filter_rows(narrow, row_bytes, rows, out);
  }
}

}  // namespace caption::vision::internal
