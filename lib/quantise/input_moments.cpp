#include "quantise/input_moments.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "base/error.h"
#include "kernels/linear.h"
#include "quantise/internal/numbers.h"
#include "quantise/padded_matrix.h"

namespace caption::quantise {
namespace {

constexpr std::int64_t kPanel = 128;
constexpr std::int64_t kTile = 32;  // rows and columns that are transposed at a time

void check_inputs(ConstView rows, std::int64_t columns) {
  CAPTION_CHECK(rows.shape().rank() == 2 && rows.dim(1) == columns && rows.dtype() == DType::kF32,
                "quantise: inputs of another shape or dtype than the layer's");
}

[[noreturn]] void throw_not_finite() {
  throw Error(ErrorCode::kBadModel,
              std::string("an input of the layer is not a finite number") + kWithoutCalibration);
}

bool is_finite(ConstView rows, std::int64_t row) {
  const float* const x = rows.as<float>() + row * rows.row_stride();
  // The sum of products with 0 is NaN when one of them is not finite.
  float sum = 0;
  for (std::int64_t k = 0; k < rows.dim(1); ++k) sum += x[k] * 0.0F;
  return sum == 0;
}

// out [K, n] = rows [n, K] transposed.
void transpose(ThreadPool& pool, ConstView rows, View out) {
  const std::int64_t num_rows = rows.dim(0);
  const std::int64_t columns = rows.dim(1);
  const std::int64_t tiles = (columns + kTile - 1) / kTile;
  pool.parallel_for(tiles, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t tile = begin; tile < end; ++tile) {
      const std::int64_t last = std::min(columns, (tile + 1) * kTile);
      for (std::int64_t first_row = 0; first_row < num_rows; first_row += kTile) {
        const std::int64_t last_row = std::min(num_rows, first_row + kTile);
        for (std::int64_t k = tile * kTile; k < last; ++k) {
          float* const to = out.as<float>() + k * out.row_stride();
          const float* const from = rows.as<float>() + k;
          for (std::int64_t n = first_row; n < last_row; ++n) to[n] = from[n * rows.row_stride()];
        }
      }
    }
  });
}

}  // namespace

InputMoments::InputMoments(std::int64_t columns) : columns_(columns) {
  CAPTION_CHECK(columns >= 1, "quantise: a layer without inputs");
  for (std::int64_t first = 0; first < columns; first += kPanel) {
    const std::int64_t rows = std::min(kPanel, columns - first);
    panels_.emplace_back(static_cast<std::size_t>(rows * (columns - first)));
  }
}

void InputMoments::add(Stream& stream, ConstView rows, const OnWork& on_work) {
  check_inputs(rows, columns_);
  std::atomic<bool> all_finite = true;
  stream.pool().parallel_for(rows.dim(0), 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      if (!is_finite(rows, n)) all_finite = false;
    }
  });
  if (!all_finite) throw_not_finite();
  if (rows.dim(0) == 0) return;
  PaddedMatrix transposed(columns_, std::min(rows.dim(0), kRowsAtATime));
  PaddedMatrix products(std::min(kPanel, columns_), columns_);
  for (std::int64_t first = 0; first < rows.dim(0); first += kRowsAtATime) {
    const std::int64_t count = std::min(kRowsAtATime, rows.dim(0) - first);
    const View inputs = transposed.view().columns(0, count);
    transpose(stream.pool(), rows.rows(first, count), inputs);
    for (std::size_t p = 0; p < panels_.size(); ++p) {
      add_panel(stream, p, inputs, products.view());
      report_work(on_work, count * std::ssize(panels_[p]));
    }
  }
  num_rows_ += rows.dim(0);
}

void InputMoments::add_panel(Stream& stream, std::size_t panel, ConstView inputs, View products) {
  const std::int64_t first = static_cast<std::int64_t>(panel) * kPanel;
  const std::int64_t height = std::min(kPanel, columns_ - first);
  const std::int64_t width = columns_ - first;
  const View out = products.rows(0, height).columns(0, width);
  kernels::linear(stream, inputs.rows(first, height), inputs.rows(first, width), ConstView{}, out);
  double* const sums = panels_[panel].data();
  stream.pool().parallel_for(height, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float* const from = out.as<float>() + i * out.row_stride();
      for (std::int64_t j = 0; j < width; ++j) sums[i * width + j] += static_cast<double>(from[j]);
    }
  });
}

void InputMoments::merge(const InputMoments& other) {
  CAPTION_CHECK(other.columns_ == columns_, "quantise: moments of inputs of another width");
  for (std::size_t p = 0; p < panels_.size(); ++p) {
    for (std::size_t i = 0; i < panels_[p].size(); ++i) panels_[p][i] += other.panels_[p][i];
  }
  num_rows_ += other.num_rows_;
}

double InputMoments::sum(std::int64_t i, std::int64_t j) const {
  if (i > j) std::swap(i, j);
  const std::int64_t first = i / kPanel * kPanel;
  return panels_[static_cast<std::size_t>(i / kPanel)]
                [static_cast<std::size_t>((i - first) * (columns_ - first) + j - first)];
}

double InputMoments::mean(std::int64_t i, std::int64_t j) const {
  return num_rows_ == 0 ? 0 : sum(i, j) / static_cast<double>(num_rows_);
}

void InputMoments::read(std::span<const std::int32_t> order, std::int64_t row, std::int64_t first,
                        double scale, std::span<float> out) const {
  const std::int32_t i = order[static_cast<std::size_t>(row)];
  for (std::size_t c = 0; c < out.size(); ++c) {
    out[c] = static_cast<float>(scale * sum(i, order[static_cast<std::size_t>(first) + c]));
  }
}

double mean_squared_output(Stream& stream, ConstView difference, const InputMoments& moments,
                           const OnWork& on_work) {
  const std::int64_t rows = difference.dim(0);
  const std::int64_t columns = moments.columns();
  check_inputs(difference, columns);
  if (moments.num_rows() == 0) return 0;
  std::vector<std::int32_t> order(static_cast<std::size_t>(columns));
  std::iota(order.begin(), order.end(), 0);
  std::vector<double> sums(static_cast<std::size_t>(rows));
  PaddedMatrix weight(std::min(kPanel, columns), columns);
  PaddedMatrix products(rows, std::min(kPanel, columns));
  const double scale = 1 / static_cast<double>(moments.num_rows());
  for (std::int64_t first = 0; first < columns; first += kPanel) {
    const std::int64_t height = std::min(kPanel, columns - first);
    const std::int64_t width = columns - first;
    const View part = weight.view().rows(0, height).columns(0, width);
    // What is right of the diagonal block stands for what is below it, too.
    stream.pool().parallel_for(height, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::span to(part.as<float>() + i * part.row_stride(),
                           static_cast<std::size_t>(width));
        moments.read(order, first + i, first, scale, to.first(static_cast<std::size_t>(height)));
        moments.read(order, first + i, first + height, 2 * scale,
                     to.subspan(static_cast<std::size_t>(height)));
      }
    });
    const View out = products.view().columns(0, height);
    kernels::linear(stream, difference.columns(first, width), part, ConstView{}, out);
    stream.pool().parallel_for(rows, 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) {
        const float* const d = difference.as<float>() + n * difference.row_stride() + first;
        const float* const y = out.as<float>() + n * out.row_stride();
        double sum = 0;
        for (std::int64_t i = 0; i < height; ++i) sum += static_cast<double>(d[i]) * y[i];
        sums[static_cast<std::size_t>(n)] += sum;
      }
    });
    report_work(on_work, rows * height * width);
  }
  return std::accumulate(sums.begin(), sums.end(), 0.0) / static_cast<double>(rows);
}

std::int64_t moments_work(std::int64_t columns) {
  std::int64_t sum = 0;
  for (std::int64_t first = 0; first < columns; first += kPanel) {
    sum += std::min(kPanel, columns - first) * (columns - first);
  }
  return sum;
}

InputMagnitudes::InputMagnitudes(std::int64_t columns) : sums_(static_cast<std::size_t>(columns)) {
  CAPTION_CHECK(columns >= 1, "quantise: a layer without inputs");
}

void InputMagnitudes::add(ConstView rows) {
  check_inputs(rows, std::ssize(sums_));
  for (std::int64_t n = 0; n < rows.dim(0); ++n) {
    if (!is_finite(rows, n)) throw_not_finite();
  }
  for (std::int64_t n = 0; n < rows.dim(0); ++n) {
    const float* const x = rows.as<float>() + n * rows.row_stride();
    for (std::size_t k = 0; k < sums_.size(); ++k) sums_[k] += std::abs(static_cast<double>(x[k]));
  }
  num_rows_ += rows.dim(0);
}

std::vector<float> InputMagnitudes::means() const {
  std::vector<float> means(sums_.size());
  if (num_rows_ == 0) return means;
  for (std::size_t k = 0; k < sums_.size(); ++k) {
    means[k] = static_cast<float>(sums_[k] / static_cast<double>(num_rows_));
  }
  return means;
}

}  // namespace caption::quantise
