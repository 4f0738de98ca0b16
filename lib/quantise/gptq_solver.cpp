#include "quantise/gptq_solver.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "base/error.h"
#include "kernels/linear.h"
#include "quantise/internal/gptq_grid.h"
#include "quantise/internal/numbers.h"

namespace caption::quantise {
namespace {

constexpr std::int64_t kBlock = 128;

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

// Returns the sum of (w - Q)^2 * factor, `factors` one for each weight, whose codes are at most
// 2^22 steps from 0.
float weighted_error(std::span<const float> weights, std::span<const float> factors,
                     const GptqGrid& grid) {
  constexpr std::size_t kLanes = 8;
  constexpr float kToWhole = 0x1.8p23F;  // x + kToWhole - kToWhole rounds to nearest even
  std::array<float, kLanes> sums{};
  const auto add = [&](std::size_t k, float& sum) {
    const float steps = (weights[k] / grid.scale + kToWhole) - kToWhole;
    const float code = std::min(std::max(steps + grid.zero, 0.0F), 15.0F);
    const float error = (code - grid.zero) * grid.scale - weights[k];
    sum += error * error * factors[k];
  };
  std::size_t k = 0;
  for (; k + kLanes <= weights.size(); k += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) add(k + lane, sums[lane]);
  }
  for (; k < weights.size(); ++k) add(k, sums[0]);
  return std::accumulate(sums.begin(), sums.end(), 0.0F);
}

// GptqOptions::clips: see "clipped" at the head of gptq_solver.h.
GptqGrid clip_grid(std::span<const float> weights, std::span<const float> factors,
                   const GptqGrid& whole) {
  constexpr int kSteps = 20;
  constexpr int kCandidates = 10;
  constexpr float kSmallestScale = 0x1p-24F;  // the smallest positive number of f16
  GptqGrid best;
  float least = std::numeric_limits<float>::infinity();
  for (int i = 0; i < kCandidates; ++i) {
    const float part = 1 - static_cast<float>(i) / kSteps;
    const GptqGrid grid{.scale = std::max(round_f16(whole.scale * part), kSmallestScale),
                        .zero = whole.zero};
    const float error = weighted_error(weights, factors, grid);
    if (i > 0 && !(error < least)) continue;
    least = error;
    best = grid;
  }
  return best;
}

// One call of solve_gptq().
class Solver {
 public:
  Solver(Stream& stream, ConstView matrix, const GptqHessian& hessian);

  GptqSolution solve(const OnWork& on_work);

 private:
  // Consecutive columns in the order of the Hessian.
  struct Block {
    std::int64_t first = 0;
    std::int64_t count = 0;
  };

  void read_rows(ConstView matrix);
  void fill_group_of();
  void find_corrections(Block block);
  void copy_inner_steps(Block block);
  void find_grids(Block block);
  void set_grid(std::int64_t n, std::int64_t group, std::span<const float> weights,
                std::span<const float> factors);
  void round_block(Block block);
  void round_row(std::int64_t n, Block block, std::span<float> weights);
  double loss() const;
  // The group of a file that position k of the order belongs to.
  std::int64_t group_at(std::int64_t k) const {
    const bool is_stored_group = hessian_.options().order != GptqOrder::kActivation;
    return (is_stored_group ? hessian_.order()[index(k)] : k) / result_.group_columns;
  }
  bool has_whole_rows() const { return hessian_.options().group_columns == 0; }

  Stream& stream_;
  const GptqHessian& hessian_;
  ConstView factor_;
  std::int64_t rows_;
  std::int64_t columns_;
  RoundedMatrix result_;
  // [N, K] in the order of the Hessian: W - Q where columns are rounded, W where not.
  PaddedMatrix errors_;
  // [N, 128]: sum over the columns j before the block of (W - Q)[:, j] * steps[k, j].
  PaddedMatrix corrections_;
  PaddedMatrix steps_;  // [128, K]: U[j, k] / U[k, k] for the columns k of a block, j before it
  PaddedMatrix inner_steps_;  // [128, 128]: U[j, k] / U[k, k] for both in the block, row j
  std::vector<double> row_losses_;
};

Solver::Solver(Stream& stream, ConstView matrix, const GptqHessian& hessian)
    : stream_(stream),
      hessian_(hessian),
      factor_(hessian.factor()),
      rows_(matrix.dim(0)),
      columns_(matrix.dim(1)),
      result_{.rows = rows_, .columns = columns_},
      errors_(rows_, columns_),
      corrections_(rows_, std::min(kBlock, columns_)),
      steps_(std::min(kBlock, columns_), columns_),
      inner_steps_(std::min(kBlock, columns_), std::min(kBlock, columns_)),
      row_losses_(index(rows_)) {
  CAPTION_CHECK(columns_ == hessian.columns(), "quantise: a Hessian of inputs of another width");
  const std::int64_t group = hessian.options().group_columns;
  result_.group_columns = group == 0 ? columns_ : group;
  result_.codes.resize(index(rows_ * columns_));
  result_.scales.resize(index(rows_ * result_.groups()));
  result_.zeros.resize(result_.scales.size());
  read_rows(matrix);
  fill_group_of();
}

void Solver::read_rows(ConstView matrix) {
  stream_.pool().parallel_for(rows_, row_grain(columns_),
                              [&](std::int64_t begin, std::int64_t end) {
                                std::vector<float> row(index(columns_));
                                for (std::int64_t n = begin; n < end; ++n) {
                                  read_numbers(matrix, n * columns_, row);
                                  if (has_whole_rows()) set_grid(n, 0, row, {});
                                  float* const to = errors_.row(n);
                                  for (std::int64_t k = 0; k < columns_; ++k) {
                                    const std::int32_t column = hessian_.order()[index(k)];
                                    to[k] = hessian_.is_dead(column) ? 0.0F : row[index(column)];
                                  }
                                }
                              });
}

void Solver::fill_group_of() {
  if (hessian_.options().order != GptqOrder::kActivation || has_whole_rows()) return;
  result_.group_of.resize(index(columns_));
  for (std::int64_t k = 0; k < columns_; ++k) {
    result_.group_of[index(hessian_.order()[index(k)])] =
        static_cast<std::int32_t>(k / result_.group_columns);
  }
}

void Solver::find_corrections(Block block) {
  const View steps = steps_.view().rows(0, block.count).columns(0, block.first);
  stream_.pool().parallel_for(block.first, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = 0; c < block.count; ++c) {
      const float* const factor = factor_.as<float>() + block.first + c;
      const float diagonal = factor[(block.first + c) * factor_.row_stride()];
      float* const to = steps_.row(c);
      for (std::int64_t j = begin; j < end; ++j) {
        to[j] = factor[j * factor_.row_stride()] / diagonal;
      }
    }
  });
  kernels::linear(stream_, errors_.view().columns(0, block.first), ConstView(steps), ConstView{},
                  corrections_.view().columns(0, block.count));
}

void Solver::copy_inner_steps(Block block) {
  for (std::int64_t j = 0; j < block.count; ++j) {
    const float* const from =
        factor_.as<float>() + (block.first + j) * factor_.row_stride() + block.first;
    for (std::int64_t k = j + 1; k < block.count; ++k) {
      const std::int64_t at = block.first + k;
      inner_steps_.row(j)[k] = from[k] / factor_.as<float>()[at * factor_.row_stride() + at];
    }
  }
}

// `factors` are U[k, k]^2 of the weights, for clipping.
void Solver::set_grid(std::int64_t n, std::int64_t group, std::span<const float> weights,
                      std::span<const float> factors) {
  const auto [min, max] = std::minmax_element(weights.begin(), weights.end());
  const GptqOptions& options = hessian_.options();
  GptqGrid grid = find_gptq_grid(*min, *max, options.symmetric);
  if (options.clips) {
    std::array<float, 2> ends = {*min, *max};
    round_to_f16(ends);  // throws for a weight beyond the range of f16, which a scale would leave
    grid = clip_grid(weights, factors, grid);
  }
  const std::size_t at = index(n * result_.groups() + group);
  result_.scales[at] = grid.scale;
  result_.zeros[at] = static_cast<std::uint8_t>(grid.zero);
}

// The grids of a block's groups are those of its weights as they would be if only the columns
// before the block were rounded: W + D, where D (I + inner steps) = corrections.
void Solver::find_grids(Block block) {
  PaddedMatrix inverse(block.count, block.count);  // (I + inner steps)^-1, transposed
  for (std::int64_t k = 0; k < block.count; ++k) {
    std::vector<double> column(index(k + 1));
    column[index(k)] = 1;
    for (std::int64_t j = k - 1; j >= 0; --j) {
      for (std::int64_t i = j + 1; i <= k; ++i) {
        column[index(j)] -= static_cast<double>(inner_steps_.row(j)[i]) * column[index(i)];
      }
    }
    std::fill_n(inverse.row(k), block.count, 0.0F);
    std::copy(column.begin(), column.end(), inverse.row(k));
  }
  PaddedMatrix changes(rows_, block.count);
  kernels::linear(stream_, corrections_.view().columns(0, block.count), ConstView(inverse.view()),
                  ConstView{}, changes.view());
  std::vector<float> factors;  // U[k, k]^2
  for (std::int64_t k = block.first; k < block.first + block.count; ++k) {
    const float diagonal = factor_.as<float>()[k * factor_.row_stride() + k];
    factors.push_back(diagonal * diagonal);
  }
  const std::int64_t group = result_.group_columns;
  stream_.pool().parallel_for(rows_, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      float* const weights = changes.row(n);
      const float* const stored = errors_.row(n) + block.first;
      for (std::int64_t k = 0; k < block.count; ++k) weights[k] += stored[k];
      for (std::int64_t k = 0; k < block.count; k += group) {
        const std::size_t count = index(std::min(group, block.count - k));
        set_grid(n, group_at(block.first + k), std::span<const float>(weights + k, count),
                 std::span<const float>(factors).subspan(index(k), count));
      }
    }
  });
}

// Rounds the columns of a row from `weights`, which are W with the corrections.
void Solver::round_row(std::int64_t n, Block block, std::span<float> weights) {
  const double added = hessian_.added();
  float* const stored = errors_.row(n) + block.first;
  double loss = 0;
  for (std::int64_t k = 0; k < block.count; ++k) {
    const std::int64_t at = block.first + k;
    const std::size_t grid_at = index(n * result_.groups() + group_at(at));
    const GptqGrid grid{.scale = result_.scales[grid_at],
                        .zero = static_cast<float>(result_.zeros[grid_at])};
    const float code = grid.code(weights[index(k)]);
    const float rounded = grid.scale * (code - grid.zero);
    const float error = stored[k] - rounded;
    const float* const steps = inner_steps_.row(k);
    for (std::int64_t i = k + 1; i < block.count; ++i) weights[index(i)] += error * steps[i];
    result_.codes[index(n * columns_ + hessian_.order()[index(at)])] =
        static_cast<std::int8_t>(code);
    stored[k] = error;
    const double output = static_cast<double>(weights[index(k)] - rounded) *
                          factor_.as<float>()[at * factor_.row_stride() + at];
    loss += output * output - added * static_cast<double>(error) * error;
  }
  row_losses_[index(n)] += loss;
}

void Solver::round_block(Block block) {
  copy_inner_steps(block);
  if (block.first > 0) {
    find_corrections(block);
  } else {
    for (std::int64_t n = 0; n < rows_; ++n) std::fill_n(corrections_.row(n), block.count, 0.0F);
  }
  if (!has_whole_rows()) find_grids(block);
  stream_.pool().parallel_for(rows_, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      float* const weights = corrections_.row(n);
      const float* const stored = errors_.row(n) + block.first;
      for (std::int64_t k = 0; k < block.count; ++k) weights[k] += stored[k];
      round_row(n, block, std::span(weights, index(block.count)));
    }
  });
}

double Solver::loss() const {
  if (hessian_.is_zero()) return 0;
  // H is twice the mean of the products.
  const double sum = std::accumulate(row_losses_.begin(), row_losses_.end(), 0.0) / 2;
  return std::max(sum, 0.0) / static_cast<double>(rows_);
}

GptqSolution Solver::solve(const OnWork& on_work) {
  for (std::int64_t first = 0; first < columns_; first += kBlock) {
    const std::int64_t count = std::min(kBlock, columns_ - first);
    round_block({.first = first, .count = count});
    report_work(on_work, rows_ * count * (first + count));
  }
  const double mean_loss = loss();
  return {.matrix = std::move(result_), .loss = mean_loss};
}

std::int64_t row_work(std::int64_t columns) {
  std::int64_t sum = 0;
  for (std::int64_t first = 0; first < columns; first += kBlock) {
    const std::int64_t count = std::min(kBlock, columns - first);
    sum += count * (first + count);
  }
  return sum;
}

}  // namespace

GptqSolution solve_gptq(Stream& stream, ConstView matrix, const GptqHessian& hessian,
                        const OnWork& on_work) {
  return Solver(stream, matrix, hessian).solve(on_work);
}

std::int64_t gptq_work(std::int64_t columns) { return row_work(columns); }

}  // namespace caption::quantise
