#include "vision/internal/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

#include "base/error.h"

namespace caption::vision::internal {
namespace {

// Keys' cubic convolution kernel with a = -0.5 (Keys 1981). The order of operations is that of
// ATen, because its rounding decides the last bit of a weight.
double cubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1.0) return ((kA + 2.0) * x - (kA + 3.0)) * x * x + 1.0;
  if (x < 2.0) return (((x - 5.0) * x + 8.0) * x - 4.0) * kA;
  return 0.0;
}

double triangle(double x) { return std::max(1.0 - std::abs(x), 0.0); }

struct Taps {
  int first_in = 0;
  std::vector<double> weights;  // sum is 1
};

// Computes the taps of one output pixel of an axis.
class TapSource {
 public:
  TapSource(Resample resample, int in_px, int out_px)
      : filter_(resample == Resample::kBicubic ? &cubic : &triangle),
        in_px_(in_px),
        scale_(static_cast<double>(in_px) / out_px),
        support_((resample == Resample::kBicubic ? 2.0 : 1.0) * std::max(scale_, 1.0)),
        inverse_scale_(scale_ >= 1.0 ? 1.0 / scale_ : 1.0) {}

  void compute(int out_idx, Taps& taps) const {
    const double center = scale_ * (out_idx + 0.5);
    // Truncated as in the reference; below 0 this is not rounding.
    // NOLINTBEGIN(bugprone-incorrect-roundings)
    taps.first_in = std::max(static_cast<int>(center - support_ + 0.5), 0);
    const int end = std::min(static_cast<int>(center + support_ + 0.5), in_px_);
    // NOLINTEND(bugprone-incorrect-roundings)
    taps.weights.clear();
    double total = 0.0;
    for (int in = taps.first_in; in < end; ++in) {
      const double weight = filter_((in - center + 0.5) * inverse_scale_);
      taps.weights.push_back(weight);
      total += weight;
    }
    if (total == 0.0) return;
    for (double& weight : taps.weights) weight /= total;
  }

 private:
  double (*filter_)(double x);
  int in_px_;
  double scale_;
  double support_;
  double inverse_scale_;
};

// The largest number of fractional bits (at most 22) at which `max_weight` still fits an int16.
int precision_for(double max_weight) {
  int bits = 0;
  // NOLINTNEXTLINE(bugprone-incorrect-roundings): as in the reference; positive numbers only
  while (bits < 22 && static_cast<int>(0.5 + max_weight * (1 << (bits + 1))) < (1 << 15)) ++bits;
  return bits;
}

std::int16_t quantise(double weight, int bits) {
  const double scaled = weight * (1 << bits);
  return static_cast<std::int16_t>(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
}

using Row = std::uint8_t __attribute__((vector_size(16)));
static_assert(sizeof(Row) == kStripRows);

// Interleaves the lower 8 bytes of a and b (a0 b0 a1 b1 ...), or the upper 8.
Row interleave_low(Row a, Row b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
Row interleave_high(Row a, Row b) {
  return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                 31);
}

// to[j][i] = from[i][j] of 16 x 16 bytes. Interleaving rows i and i + 8 into rows 2i and 2i + 1
// rotates the 8-bit index (row, column) of a byte by one bit; four rotations swap row and column.
void transpose_block(const std::uint8_t* from, std::ptrdiff_t from_pitch, std::uint8_t* to,
                     std::ptrdiff_t to_pitch) {
  Row rows[kStripRows], moved[kStripRows];
  for (int i = 0; i < kStripRows; ++i) std::memcpy(&rows[i], from + i * from_pitch, sizeof(Row));
  for (int step = 0; step < 4; ++step) {
    for (int i = 0; i < kStripRows / 2; ++i) {
      moved[2 * i] = interleave_low(rows[i], rows[i + kStripRows / 2]);
      moved[2 * i + 1] = interleave_high(rows[i], rows[i + kStripRows / 2]);
    }
    std::copy(std::begin(moved), std::end(moved), std::begin(rows));
  }
  for (int i = 0; i < kStripRows; ++i) std::memcpy(to + i * to_pitch, &rows[i], sizeof(Row));
}

// Calls `body` with the starts of blocks of 16 that cover [0, size); size >= 16. The last block
// overlaps the one before unless 16 divides size.
template <class Body>
void for_each_16(std::ptrdiff_t size, const Body& body) {
  for (std::ptrdiff_t i = 0; i + 16 <= size; i += 16) body(i);
  if (size % 16 != 0) body(size - 16);
}

// Filters rows of RGB8 along their width, into rows of num_out pixels without padding. Strips of
// kStripRows rows are transposed, so that the lanes of the filter are rows and share one weight,
// and transposed back.
class ColumnFilter {
 public:
  ColumnFilter(const FilterLoops& loops, const ResizeAxis& columns)
      : loops_(loops),
        taps_(columns.taps()),
        begin_in_(columns.begin_in()),
        in_bytes_((columns.end_in() - columns.begin_in()) * kChannels),
        out_bytes_(columns.num_out() * kChannels) {}

  // `in` is the first pixel of the first row.
  void run(const std::uint8_t* in, std::ptrdiff_t in_pitch, std::ptrdiff_t num_rows,
           std::uint8_t* out) {
    in += static_cast<std::ptrdiff_t>(begin_in_) * kChannels;
    if (std::min({num_rows, in_bytes_, out_bytes_}) >= kStripRows) {
      strip_.resize(static_cast<std::size_t>(in_bytes_) * kStripRows);
      filtered_.resize(static_cast<std::size_t>(out_bytes_) * kStripRows);
      for_each_16(num_rows, [&](std::ptrdiff_t y) {
        run_strip(in + y * in_pitch, in_pitch, out + y * out_bytes_);
      });
      return;
    }
    for (std::ptrdiff_t y = 0; y < num_rows; ++y) {
      run_row(in + y * in_pitch, out + y * out_bytes_);
    }
  }

 private:
  void run_strip(const std::uint8_t* in, std::ptrdiff_t in_pitch, std::uint8_t* out) {
    for_each_16(in_bytes_, [&](std::ptrdiff_t i) {
      std::uint8_t turned[kStripRows * kStripRows];
      transpose_block(in + i, in_pitch, turned, kStripRows);
      std::copy(std::begin(turned), std::end(turned), strip_.data() + i * kStripRows);
    });
    loops_.columns(taps_, strip_.data(), begin_in_, filtered_.data());
    for_each_16(out_bytes_, [&](std::ptrdiff_t i) {
      transpose_block(filtered_.data() + i * kStripRows, kStripRows, out + i, out_bytes_);
    });
  }

  // Filters one row of an image that is smaller than a block.
  void run_row(const std::uint8_t* in, std::uint8_t* out) const {
    for (std::ptrdiff_t x = 0; x < taps_.num_out; ++x) {
      const std::int16_t* const weights = taps_.weights + x * taps_.max_taps;
      for (std::ptrdiff_t c = 0; c < kChannels; ++c) {
        const std::uint8_t* const first = in + (taps_.first_in[x] - begin_in_) * kChannels + c;
        std::int32_t sum = 1 << (taps_.precision_bits - 1);
        for (int t = 0; t < taps_.num_taps[x]; ++t) sum += weights[t] * first[t * kChannels];
        *out++ = static_cast<std::uint8_t>(std::clamp(sum >> taps_.precision_bits, 0, 255));
      }
    }
  }

  const FilterLoops& loops_;
  AxisTaps taps_;
  int begin_in_;
  std::ptrdiff_t in_bytes_;             // per row, from begin_in_ to the last pixel read
  std::ptrdiff_t out_bytes_;            // per row
  std::vector<std::int32_t> strip_;     // [pixels, kChannels, kStripRows]
  std::vector<std::uint8_t> filtered_;  // [num_out, kChannels, kStripRows]
};

}  // namespace

ResizeAxis::ResizeAxis(Resample resample, int in_px, int out_px, int first_out, int num_out)
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
  const TapSource source(resample, in_px, out_px);
  // The precision is common to the whole axis, so the weights of all outputs count, not only those
  // of the window.
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

AxisTaps ResizeAxis::taps() const {
  CAPTION_CHECK(!identity_, "an axis that keeps its size has no taps");
  return {.first_in = first_in_.data(),
          .num_taps = num_taps_.data(),
          .weights = weights_.data(),
          .max_taps = static_cast<std::int64_t>(max_taps_),
          .num_out = num_out(),
          .precision_bits = precision_bits_};
}

const FilterLoops& filter_loops(CpuTier tier) {
#if defined(__x86_64__)
  if (tier == CpuTier::kReference) return filter_loops_reference();
  return tier == CpuTier::kAvx2 ? filter_loops_avx2() : filter_loops_avx512();
#else
  CAPTION_CHECK(tier == CpuTier::kReference, "a tier of another machine");
  return filter_loops_reference();
#endif
}

void resize_window(const FilterLoops& loops, const video::Frame& frame, const ResizeAxis& rows,
                   const ResizeAxis& columns, std::span<std::uint8_t> out) {
  const std::size_t in_row_bytes = static_cast<std::size_t>(frame.width_px) * kChannels;
  const std::size_t row_bytes = static_cast<std::size_t>(columns.num_out()) * kChannels;
  CAPTION_CHECK(frame.rgb.size() == in_row_bytes * static_cast<std::size_t>(frame.height_px),
                "frame whose pixels do not match its size");
  CAPTION_CHECK(out.size() == row_bytes * static_cast<std::size_t>(rows.num_out()),
                "resize output of another size than its window");

  // Filters along the width first, only the input rows that the window needs.
  const int num_rows = rows.end_in() - rows.begin_in();
  const std::uint8_t* const in =
      frame.rgb.data() + static_cast<std::size_t>(rows.begin_in()) * in_row_bytes;
  std::vector<std::uint8_t> narrow;
  std::uint8_t* filtered = out.data();
  if (!rows.is_identity()) {
    narrow.resize(row_bytes * static_cast<std::size_t>(num_rows));
    filtered = narrow.data();
  }
  if (!columns.is_identity()) {
    ColumnFilter(loops, columns)
        .run(in, static_cast<std::ptrdiff_t>(in_row_bytes), num_rows, filtered);
  } else {
    const std::uint8_t* const first = in + static_cast<std::size_t>(columns.begin_in()) * kChannels;
    for (std::size_t y = 0; y < static_cast<std::size_t>(num_rows); ++y) {
      std::memcpy(filtered + y * row_bytes, first + y * in_row_bytes, row_bytes);
    }
  }
  if (!rows.is_identity()) {
    loops.rows(rows.taps(), narrow.data(), rows.begin_in(), static_cast<std::int64_t>(row_bytes),
               out.data());
  }
}

}  // namespace caption::vision::internal
