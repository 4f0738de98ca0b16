// The search for AWQ's clipping. The squared error of a group's share of an output over inputs x is
// d^T G d with d = rounded - w and G = sum x x^T over the group's columns, so each candidate costs
// a product with G [group, group] instead of one with all inputs.
#include <algorithm>
#include <cstddef>
#include <limits>

#include "kernels/linear.h"
#include "quantise/awq_search.h"
#include "quantise/internal/awq_groups.h"
#include "quantise/padded_matrix.h"

namespace caption::quantise {
namespace {

constexpr std::int64_t kSampledRows = 512;
constexpr int kGrid = 20;
constexpr int kCandidates = 10;  // down to half the largest weight

std::int64_t step_of(std::int64_t num_inputs) {
  return std::max<std::int64_t>(1, num_inputs / kSampledRows);
}

// The multiply-adds of a group with the products of its inputs.
std::int64_t group_work(std::int64_t rows, std::int64_t samples, std::int64_t group) {
  return (samples + kCandidates * rows) * group * group;
}

// One call of search_clip().
class ClipSearch {
 public:
  ClipSearch(Stream& stream, ConstView matrix, ConstView inputs, std::int64_t group)
      : stream_(stream),
        matrix_(matrix),
        inputs_(inputs),
        group_(group),
        step_(step_of(inputs.dim(0))),
        samples_(group, (inputs.dim(0) + step_ - 1) / step_),
        products_(group, group),
        differences_(matrix.dim(0), group),
        shares_(matrix.dim(0), group) {}

  std::vector<float> run(const OnWork& on_work);

 private:
  void sum_products(std::int64_t group_index);
  void find_limits(std::int64_t group_index, std::vector<float>& limits);

  Stream& stream_;
  ConstView matrix_;
  ConstView inputs_;
  std::int64_t group_;
  std::int64_t step_;
  PaddedMatrix samples_;      // [group, sampled rows]
  PaddedMatrix products_;     // G [group, group]
  PaddedMatrix differences_;  // d [N, group]
  PaddedMatrix shares_;       // d G [N, group]
};

void ClipSearch::sum_products(std::int64_t group_index) {
  const View samples = samples_.view();
  const float* const inputs = inputs_.as<float>() + group_index * group_;
  for (std::int64_t t = 0; t < samples.dim(1); ++t) {
    const float* const x = inputs + t * step_ * inputs_.row_stride();
    for (std::int64_t k = 0; k < group_; ++k) samples_.row(k)[t] = x[k];
  }
  kernels::linear(stream_, samples, ConstView(samples), ConstView{}, products_.view());
}

void ClipSearch::find_limits(std::int64_t group_index, std::vector<float>& limits) {
  const std::int64_t rows = matrix_.dim(0);
  const std::int64_t columns = matrix_.dim(1);
  const auto width = static_cast<std::size_t>(group_);
  const auto weights_of = [&](std::int64_t n) {
    return std::span(matrix_.as<float>() + n * columns + group_index * group_, width);
  };
  std::vector<double> least(static_cast<std::size_t>(rows),
                            std::numeric_limits<double>::infinity());
  for (int i = 0; i < kCandidates; ++i) {
    const auto factor = static_cast<float>(1 - static_cast<double>(i) / kGrid);
    stream_.pool().parallel_for(rows, 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) {
        const std::span<const float> weights = weights_of(n);
        const float limit = largest_magnitude(weights) * factor;
        const std::span<float> difference(differences_.row(n), width);
        for (std::size_t k = 0; k < width; ++k) {
          difference[k] = std::clamp(weights[k], -limit, limit);
        }
        round_awq_values(difference);
        for (std::size_t k = 0; k < width; ++k) difference[k] -= weights[k];
      }
    });
    kernels::linear(stream_, differences_.view(), ConstView(products_.view()), ConstView{},
                    shares_.view());
    stream_.pool().parallel_for(rows, 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) {
        double error = 0;
        for (std::int64_t k = 0; k < group_; ++k) {
          error += static_cast<double>(differences_.row(n)[k]) * shares_.row(n)[k];
        }
        const auto row = static_cast<std::size_t>(n);
        if (!(error < least[row])) continue;
        least[row] = error;
        limits[static_cast<std::size_t>(n * (columns / group_) + group_index)] =
            largest_magnitude(weights_of(n)) * factor;
      }
    });
  }
}

std::vector<float> ClipSearch::run(const OnWork& on_work) {
  const std::int64_t groups = matrix_.dim(1) / group_;
  std::vector<float> limits(static_cast<std::size_t>(matrix_.dim(0) * groups),
                            std::numeric_limits<float>::max());
  for (std::int64_t g = 0; g < groups; ++g) {
    sum_products(g);
    find_limits(g, limits);
    report_work(on_work, group_work(matrix_.dim(0), samples_.view().dim(1), group_));
  }
  return limits;
}

}  // namespace

std::vector<float> search_clip(Stream& stream, ConstView matrix, ConstView inputs,
                               std::int64_t group_columns, const OnWork& on_work) {
  CAPTION_CHECK(matrix.dtype() == DType::kF32 && matrix.is_dense() &&
                    inputs.dtype() == DType::kF32 && inputs.dim(1) == matrix.dim(1) &&
                    inputs.dim(0) >= 1,
                "quantise: a search for clipping without inputs of the matrix's columns");
  require_finite(stream.pool(), matrix, "a weight");
  require_finite(stream.pool(), inputs, "an input of the layer");
  return ClipSearch(stream, matrix, inputs, awq_group(matrix.dim(1), group_columns)).run(on_work);
}

std::int64_t clip_work(const Shape& matrix, std::int64_t num_inputs, std::int64_t group_columns) {
  const std::int64_t step = step_of(num_inputs);
  const std::int64_t group = awq_group(matrix[1], group_columns);
  return matrix[1] / group * group_work(matrix[0], (num_inputs + step - 1) / step, group);
}

void clip_groups(ThreadPool& pool, View matrix, std::span<const float> limits,
                 std::int64_t group_columns) {
  const std::int64_t columns = matrix.dim(1);
  const std::int64_t group = awq_group(columns, group_columns);
  CAPTION_CHECK(matrix.dtype() == DType::kF32 && matrix.is_dense() &&
                    std::ssize(limits) == matrix.num_elements() / group,
                "quantise: limits of other groups than the matrix has");
  pool.parallel_for(std::ssize(limits), 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t g = begin; g < end; ++g) {
      const float limit = limits[static_cast<std::size_t>(g)];
      float* const weights = matrix.as<float>() + g * group;
      for (std::int64_t k = 0; k < group; ++k) weights[k] = std::clamp(weights[k], -limit, limit);
    }
  });
}

}  // namespace caption::quantise
