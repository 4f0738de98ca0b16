#include "quantise/awq_search.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>

#include "base/error.h"
#include "quantise/internal/awq_groups.h"
#include "quantise/internal/numbers.h"

namespace caption::quantise {
namespace {

constexpr float kSmallestScale = 1e-4F;

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

void check_matrix(ConstView matrix, std::int64_t columns) {
  CAPTION_CHECK(matrix.shape().rank() == 2 && matrix.dtype() == DType::kF32 && matrix.is_dense() &&
                    matrix.dim(1) == columns,
                "quantise: AWQ takes dense matrices in f32 with equal numbers of columns");
}

// [K]: the mean over the rows of all matrices of |w| / (max|w| of its group + 1e-6).
std::vector<float> mean_weights(ThreadPool& pool, std::span<const ConstView> matrices,
                                std::int64_t group) {
  const std::int64_t columns = matrices.front().dim(1);
  std::vector<float> means(index(columns));
  pool.parallel_for(columns / group, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> sums(index(group));
    for (std::int64_t g = begin; g < end; ++g) {
      std::fill(sums.begin(), sums.end(), 0.0);
      std::int64_t rows = 0;
      for (const ConstView& matrix : matrices) {
        rows += matrix.dim(0);
        for (std::int64_t n = 0; n < matrix.dim(0); ++n) {
          const std::span<const float> weights(matrix.as<float>() + n * columns + g * group,
                                               index(group));
          const float largest = largest_magnitude(weights) + 1e-6F;
          for (std::size_t k = 0; k < sums.size(); ++k) {
            sums[k] += static_cast<double>(std::abs(weights[k]) / largest);
          }
        }
      }
      for (std::size_t k = 0; k < sums.size(); ++k) {
        means[index(g * group) + k] = static_cast<float>(sums[k] / static_cast<double>(rows));
      }
    }
  });
  return means;
}

std::vector<float> scales_of(std::span<const float> mean_inputs,
                             std::span<const float> mean_weights, float ratio, bool duo_scaling) {
  std::vector<float> scales(mean_inputs.size());
  for (std::size_t k = 0; k < scales.size(); ++k) {
    const float of_inputs = std::pow(mean_inputs[k], ratio);
    const float divisor =
        duo_scaling ? std::pow(mean_weights[k], 1.0F - ratio) + kSmallestScale : 1.0F;
    scales[k] = std::max(of_inputs / divisor, kSmallestScale);
  }
  const auto [least, largest] = std::minmax_element(scales.begin(), scales.end());
  const float middle = std::sqrt(*largest * *least);
  for (float& scale : scales) {
    scale /= middle;
    if (!std::isfinite(scale)) scale = 1;
  }
  return scales;
}

// out = pseudo_quantise(matrix * scales) / scales.
void make_candidate(ThreadPool& pool, ConstView matrix, std::span<const float> scales,
                    std::int64_t group, View out) {
  const std::int64_t columns = matrix.dim(1);
  pool.parallel_for(matrix.dim(0), row_grain(columns), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      const float* const from = matrix.as<float>() + n * columns;
      const std::span<float> to(out.as<float>() + n * columns, index(columns));
      for (std::size_t k = 0; k < to.size(); ++k) to[k] = from[k] * scales[k];
      for (std::int64_t first = 0; first < columns; first += group) {
        round_awq_values(to.subspan(index(first), index(group)));
      }
      for (std::size_t k = 0; k < to.size(); ++k) to[k] /= scales[k];
    }
  });
}

}  // namespace

std::int64_t awq_group(std::int64_t columns, std::int64_t group_columns) {
  if (group_columns == 0) return columns;
  CAPTION_CHECK(group_columns > 0 && columns % group_columns == 0,
                "quantise: groups of " + std::to_string(group_columns) + " do not divide the " +
                    std::to_string(columns) + " columns of a matrix");
  return group_columns;
}

void require_finite(ThreadPool& pool, ConstView rows, const char* what) {
  std::atomic<bool> all_finite = true;
  pool.parallel_for(rows.dim(0), row_grain(rows.dim(1)), [&](std::int64_t begin, std::int64_t end) {
    bool is_finite = true;
    for (std::int64_t n = begin; n < end; ++n) {
      const float* const row = rows.as<float>() + n * rows.row_stride();
      for (std::int64_t k = 0; k < rows.dim(1); ++k) is_finite = is_finite && std::isfinite(row[k]);
    }
    if (!is_finite) all_finite = false;
  });
  if (!all_finite)
    throw Error(ErrorCode::kBadModel,
                std::string(what) + " is not a finite number; download the model again");
}

void pseudo_quantise(ThreadPool& pool, ConstView matrix, std::int64_t group_columns, View out) {
  const std::int64_t columns = matrix.dim(1);
  check_matrix(matrix, columns);
  check_matrix(out, columns);
  const std::int64_t group = awq_group(columns, group_columns);
  pool.parallel_for(matrix.dim(0), row_grain(columns), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t first = begin * columns; first < end * columns; first += group) {
      if (out.raw() != matrix.raw()) {
        std::copy_n(matrix.as<float>() + first, group, out.as<float>() + first);
      }
      round_awq_values(std::span(out.as<float>() + first, index(group)));
    }
  });
}

AwqScales search_scales(ThreadPool& pool, std::span<const ConstView> matrices,
                        std::span<const float> mean_inputs, const ModuleLoss& loss,
                        const AwqOptions& options) {
  CAPTION_CHECK(!matrices.empty() && options.num_ratios >= 1, "quantise: nothing to scale");
  const auto columns = static_cast<std::int64_t>(mean_inputs.size());
  const std::int64_t group = awq_group(columns, options.group_columns);
  for (const ConstView& matrix : matrices) {
    check_matrix(matrix, columns);
    require_finite(pool, matrix, "a weight");
  }
  require_finite(pool, view_of(mean_inputs).reshape({1, columns}), "an input of the layer");
  const std::vector<float> weights = mean_weights(pool, matrices, group);
  std::vector<Tensor> candidates;
  std::vector<ConstView> views;
  for (const ConstView& matrix : matrices) {
    candidates.emplace_back(DType::kF32, matrix.shape());
    views.push_back(std::as_const(candidates.back()).view());
  }
  AwqScales best;
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < options.num_ratios; ++i) {
    const double ratio = static_cast<double>(i) / options.num_ratios;
    std::vector<float> scales =
        scales_of(mean_inputs, weights, static_cast<float>(ratio), options.duo_scaling);
    for (std::size_t m = 0; m < matrices.size(); ++m) {
      make_candidate(pool, matrices[m], scales, group, candidates[m].view());
    }
    best.losses.push_back(loss(views));
    if (!(best.losses.back() < least)) continue;
    least = best.losses.back();
    best.ratio = ratio;
    best.scales = std::move(scales);
  }
  if (best.scales.empty()) {
    throw Error(
        ErrorCode::kBadModel,
        std::string("a layer's output is not finite with any scales of AWQ") + kWithoutCalibration);
  }
  return best;
}

ModuleLoss linear_loss(Stream& stream, ConstView matrix, const InputMoments& moments,
                       OnWork on_work) {
  check_matrix(matrix, moments.columns());
  return [&stream, matrix, &moments,
          on_work = std::move(on_work)](std::span<const ConstView> weights) {
    Tensor difference(DType::kF32, matrix.shape());
    const std::int64_t columns = matrix.dim(1);
    stream.pool().parallel_for(matrix.dim(0), row_grain(columns),
                               [&](std::int64_t begin, std::int64_t end) {
                                 const float* const candidate = weights.front().as<float>();
                                 for (std::int64_t i = begin * columns; i < end * columns; ++i) {
                                   difference.as<float>()[i] = candidate[i] - matrix.as<float>()[i];
                                 }
                               });
    return mean_squared_output(stream, difference.view(), moments, on_work);
  };
}

void multiply_columns(ThreadPool& pool, View matrix, std::span<const float> scales) {
  check_matrix(matrix, std::ssize(scales));
  pool.parallel_for(matrix.dim(0), row_grain(matrix.dim(1)),
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t n = begin; n < end; ++n) {
                        float* const row = matrix.as<float>() + n * matrix.dim(1);
                        for (std::size_t k = 0; k < scales.size(); ++k) row[k] *= scales[k];
                      }
                    });
}

void divide(View tensor, std::span<const float> scales) {
  const std::int64_t rows = tensor.dim(0);
  CAPTION_CHECK(tensor.dtype() == DType::kF32 && tensor.is_dense() && rows >= std::ssize(scales),
                "quantise: more scales than rows");
  const std::int64_t width = rows == 0 ? 0 : tensor.num_elements() / rows;
  float* row = tensor.as<float>() + (rows - std::ssize(scales)) * width;
  for (const float scale : scales) {
    for (std::int64_t i = 0; i < width; ++i) row[i] /= scale;
    row += width;
  }
}

}  // namespace caption::quantise
