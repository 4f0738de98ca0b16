#include "video/internal/content_measures.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace caption::video {
namespace {

constexpr int kMaxRows = 68;  // one row in sixteen of 1080
constexpr int kMaxColumns = 64;
constexpr int kFarPx = 16;        // one macroblock: codecs do not smear further
constexpr int kBlockPx = 16;      // large enough for a codec's noise to cancel out
constexpr int kBlockRowStep = 4;  // a quarter of the rows suffices for the mean of a block
constexpr std::ptrdiff_t kRgbBytes = 3;

std::ptrdiff_t row_bytes(const Frame& frame) { return frame.width_px * kRgbBytes; }

const std::uint8_t* row_at(const Frame& frame, int y) {
  return frame.rgb.data() + y * row_bytes(frame);
}

// The rows that are read, evenly spaced and centred: row at(i) for i < count.
struct Rows {
  explicit Rows(int height_px) : height(height_px), count(std::min(height_px, kMaxRows)) {}
  int at(int i) const { return (2 * i + 1) * height / (2 * count); }
  int height;
  int count;
};

// Largest |a - b| over `count` bytes; written so that the compiler vectorises it.
int largest_difference(const std::uint8_t* __restrict a, const std::uint8_t* __restrict b,
                       std::ptrdiff_t count) {
  int largest = 0;
  for (std::ptrdiff_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

int sum_of_differences(const std::uint8_t* __restrict a, const std::uint8_t* __restrict b,
                       std::ptrdiff_t count) {
  int sum = 0;
  for (std::ptrdiff_t i = 0; i < count; ++i) sum += std::abs(a[i] - b[i]);
  return sum;
}

int luma(const std::uint8_t* rgb) { return (77 * rgb[0] + 150 * rgb[1] + 29 * rgb[2]) >> 8; }

struct Block {
  int x, y, width_px;
};

// First computes the sum of absolute differences, which is cheap and bounds the difference of each
// channel's sums; only when it exceeds the limit are the channels summed separately.
bool block_differs(const Frame& a, const Frame& b, const Block& block, int limit) {
  const int end_y = std::min(block.y + kBlockPx, a.height_px);
  const std::ptrdiff_t first = kRgbBytes * block.x, count = kRgbBytes * block.width_px;
  std::int64_t most = 0;  // upper bound of the difference of any channel's sums
  int num_px = 0;
  for (int y = block.y; y < end_y; y += kBlockRowStep) {
    most += sum_of_differences(row_at(a, y) + first, row_at(b, y) + first, count);
    num_px += block.width_px;
  }
  const std::int64_t allowed = std::int64_t{limit} * num_px;
  if (most <= allowed) return false;
  std::array<std::int64_t, 3> sums = {};
  for (int y = block.y; y < end_y; y += kBlockRowStep) {
    const std::uint8_t *row_a = row_at(a, y) + first, *row_b = row_at(b, y) + first;
    for (std::ptrdiff_t i = 0; i < count; ++i) {
      sums[static_cast<std::size_t>(i) % sums.size()] += row_a[i] - row_b[i];
    }
  }
  return std::any_of(sums.begin(), sums.end(),
                     [&](std::int64_t sum) { return std::abs(sum) > allowed; });
}

// Pearson's correlation coefficient of pairs; 0 when one side is constant.
class Correlation {
 public:
  void add(int x, int y) {
    ++count_;
    x_ += x;
    y_ += y;
    xx_ += std::int64_t{x} * x;
    yy_ += std::int64_t{y} * y;
    xy_ += std::int64_t{x} * y;
  }
  double variance() const { return count_ > 0 ? scaled(xx_, x_, x_) : 0; }
  double value() const {
    const double both = count_ > 0 ? scaled(xx_, x_, x_) * scaled(yy_, y_, y_) : 0;
    return both > 0 ? scaled(xy_, x_, y_) / std::sqrt(both) : 0;
  }

 private:
  double scaled(std::int64_t product, std::int64_t a, std::int64_t b) const {
    const auto n = static_cast<double>(count_);
    return static_cast<double>(product) / n -
           static_cast<double>(a) / n * (static_cast<double>(b) / n);
  }

  std::int64_t count_ = 0, x_ = 0, y_ = 0, xx_ = 0, yy_ = 0, xy_ = 0;
};

}  // namespace

Flatness measure_flatness(const Frame& frame) {
  const Rows rows(frame.height_px);
  std::array<std::int64_t, 3> sums = {};
  const int step = std::max(1, frame.width_px / kMaxColumns);
  std::int64_t count = 0;
  for (int i = 0; i < rows.count; ++i) {
    const std::uint8_t* row = row_at(frame, rows.at(i));
    for (int x = 0; x < frame.width_px; x += step, ++count) {
      for (std::size_t c = 0; c < sums.size(); ++c)
        sums[c] += row[kRgbBytes * x + static_cast<std::ptrdiff_t>(c)];
    }
  }
  Flatness flatness;
  std::vector<std::uint8_t> even(static_cast<std::size_t>(row_bytes(frame)));
  for (std::size_t c = 0; c < sums.size(); ++c) {
    flatness.colour[c] = static_cast<int>((sums[c] + count / 2) / count);
  }
  for (std::size_t i = 0; i < even.size(); ++i) {
    even[i] = static_cast<std::uint8_t>(flatness.colour[i % 3]);
  }
  for (int i = 0; i < rows.count; ++i) {
    flatness.deviation =
        std::max(flatness.deviation,
                 largest_difference(row_at(frame, rows.at(i)), even.data(), row_bytes(frame)));
  }
  return flatness;
}

Texture measure_texture(const Frame& frame) {
  const Rows rows(frame.height_px);
  const int step = std::max(1, frame.width_px / kMaxColumns);
  Correlation beside, below, far;
  for (int i = 0; i < rows.count; ++i) {
    const int y = rows.at(i);
    const std::uint8_t* row = row_at(frame, y);
    const std::uint8_t* next = row_at(frame, std::min(y + 1, frame.height_px - 1));
    for (int x = 0; x + 1 < frame.width_px; x += step) {
      const int here = luma(row + kRgbBytes * x);
      beside.add(here, luma(row + kRgbBytes * (x + 1)));
      if (next != row) below.add(here, luma(next + kRgbBytes * x));
      if (x + kFarPx < frame.width_px) far.add(here, luma(row + kRgbBytes * (x + kFarPx)));
    }
  }
  return {.deviation = std::sqrt(beside.variance()),
          .near = std::max(std::abs(beside.value()), std::abs(below.value())),
          .far = far.value()};
}

bool differs(const Frame& a, const Frame& b, int limit) {
  const int width_px = std::min(kBlockPx, a.width_px);
  for (int y = 0; y < a.height_px; y += kBlockPx) {
    for (int next_x = 0; next_x < a.width_px; next_x += kBlockPx) {
      const int x = std::min(next_x, a.width_px - width_px);  // the last block keeps its full width
      if (block_differs(a, b, {.x = x, .y = y, .width_px = width_px}, limit)) return true;
    }
  }
  return false;
}

}  // namespace caption::video
