// The factor of GPTQ's Hessian: H = U U^T with an upper triangular U, a Cholesky factorisation from
// the last column to the first, in blocks of 128 columns. Block column p takes
//   A = H[0:p+1, p] - U[0:p+1, p+1:] U[p, p+1:]^T,  U[p, p] U[p, p]^T = A[p],  U[i, p] = A[i] U[p,
//   p]^-T
// in f32, the diagonal block and its inverse in f64.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "kernels/linear.h"
#include "quantise/gptq_solver.h"
#include "quantise/internal/numbers.h"

namespace caption::quantise {
namespace {

constexpr std::int64_t kBlock = 128;
constexpr std::int64_t kRowsOfFill = 1024;  // rows of H that are read between two reports
constexpr double kDampingStep = 0.01;

void check_options(const GptqOptions& options) {
  const auto refuse = [](const std::string& what) {
    throw Error(ErrorCode::kUsage, "quantize: gptq takes " + what);
  };
  if (options.group_columns != 0 &&
      (options.group_columns < 1 || kBlock % options.group_columns != 0)) {
    refuse("groups of whole rows or of a number of columns that divides 128");
  }
  if (options.clips && options.group_columns == 0)
    refuse("groups that are clipped, not whole rows");
  if (!(options.damping > 0 && options.damping < 1)) refuse("a damping between 0 and 1");
}

std::vector<std::int32_t> identity(std::size_t count) {
  std::vector<std::int32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

// Sorts by descending diagonal, equal ones in their order.
void sort_columns(std::span<std::int32_t> order, std::span<const float> diagonal) {
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return diagonal[static_cast<std::size_t>(a)] > diagonal[static_cast<std::size_t>(b)];
  });
}

// The columns that no whole group has stay the last.
std::vector<std::int32_t> order_groups(std::span<const float> diagonal, std::size_t group) {
  std::vector<std::int32_t> order = identity(diagonal.size());
  const std::size_t num_groups = diagonal.size() / group;
  std::vector<std::int32_t> firsts;  // the column with the largest diagonal of each group
  for (std::size_t g = 0; g < num_groups; ++g) {
    const auto columns = std::span(order).subspan(g * group, group);
    sort_columns(columns, diagonal);
    firsts.push_back(columns.front());
  }
  sort_columns(firsts, diagonal);
  std::vector<std::int32_t> sorted;
  for (const std::int32_t first : firsts) {
    const auto at = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(first) / group * group);
    sorted.insert(sorted.end(), order.begin() + at,
                  order.begin() + at + static_cast<std::ptrdiff_t>(group));
  }
  std::copy(sorted.begin(), sorted.end(), order.begin());
  return order;
}

std::vector<std::int32_t> order_columns(std::span<const float> diagonal,
                                        const GptqOptions& options) {
  std::vector<std::int32_t> order = identity(diagonal.size());
  switch (options.order) {
    case GptqOrder::kStored: break;
    case GptqOrder::kActivation: sort_columns(order, diagonal); break;
    case GptqOrder::kGroupsByActivation:
      return order_groups(diagonal, options.group_columns == 0
                                        ? diagonal.size()
                                        : static_cast<std::size_t>(options.group_columns));
  }
  return order;
}

// A diagonal block [b, b] in f64, row-major.
struct DiagonalBlock {
  std::int64_t size = 0;
  std::vector<double> numbers = {};

  double& at(std::int64_t i, std::int64_t j) {
    return numbers[static_cast<std::size_t>(i * size + j)];
  }
};

// Replaces the upper triangle of a symmetric block by U. Returns false when the block is not
// positive definite.
bool factor_block(DiagonalBlock& block) {
  for (std::int64_t k = block.size - 1; k >= 0; --k) {
    for (std::int64_t i = k; i >= 0; --i) {
      double sum = block.at(i, k);
      for (std::int64_t j = k + 1; j < block.size; ++j) sum -= block.at(i, j) * block.at(k, j);
      if (i == k) {
        if (!(sum > 0) || !std::isfinite(sum)) return false;
        block.at(k, k) = std::sqrt(sum);
      } else {
        block.at(i, k) = sum / block.at(k, k);
      }
    }
  }
  return true;
}

// Writes the inverse of the upper triangle into `out` [b, b] f32, zeros below its diagonal.
void invert_block(DiagonalBlock& block, View out) {
  DiagonalBlock inverse{block.size, std::vector<double>(block.numbers.size())};
  for (std::int64_t j = 0; j < block.size; ++j) {
    inverse.at(j, j) = 1 / block.at(j, j);
    for (std::int64_t i = j - 1; i >= 0; --i) {
      double sum = 0;
      for (std::int64_t k = i + 1; k <= j; ++k) sum += block.at(i, k) * inverse.at(k, j);
      inverse.at(i, j) = -sum / block.at(i, i);
    }
  }
  for (std::int64_t i = 0; i < block.size; ++i) {
    float* const to = out.as<float>() + i * out.row_stride();
    for (std::int64_t j = 0; j < block.size; ++j) to[j] = static_cast<float>(inverse.at(i, j));
  }
}

// The multiply-adds of a block column of the factorisation.
std::int64_t block_work(std::int64_t columns, std::int64_t first, std::int64_t count) {
  const std::int64_t next = first + count;
  return next * (columns - next) * count + first * count * count;
}

std::int64_t factor_work(std::int64_t columns) {
  std::int64_t sum = 0;
  for (std::int64_t first = 0; first < columns; first += kBlock) {
    sum += block_work(columns, first, std::min(kBlock, columns - first));
  }
  return sum;
}

// Replaces H by U; see the head of this file.
class Factorisation {
 public:
  // Reports its work if it is `counted`, and 0 for each part if not.
  Factorisation(View matrix, const OnWork& on_work, bool counted)
      : matrix_(matrix),
        on_work_(on_work),
        counted_(counted),
        products_(matrix.dim(0), std::min(kBlock, matrix.dim(0))),
        inverse_(std::min(kBlock, matrix.dim(0)), std::min(kBlock, matrix.dim(0))) {}

  // Returns false when H is not positive definite.
  bool run(Stream& stream) {
    const std::int64_t columns = matrix_.dim(0);
    for (std::int64_t first = (columns - 1) / kBlock * kBlock; first >= 0; first -= kBlock) {
      const std::int64_t count = std::min(kBlock, columns - first);
      if (!factor_columns(stream, first, count)) return false;
      report_work(on_work_, counted_ ? block_work(columns, first, count) : 0);
    }
    return true;
  }

 private:
  bool factor_columns(Stream& stream, std::int64_t first, std::int64_t count);

  View matrix_;
  const OnWork& on_work_;
  bool counted_;
  PaddedMatrix products_;  // [K, 128]
  PaddedMatrix inverse_;   // [128, 128]
};

bool Factorisation::factor_columns(Stream& stream, std::int64_t first, std::int64_t count) {
  const std::int64_t next = first + count;
  const std::int64_t rest = matrix_.dim(0) - next;
  const View block = matrix_.rows(0, next).columns(first, count);
  const View products = products_.view().rows(0, next).columns(0, count);
  if (rest > 0) {
    const ConstView done = matrix_.columns(next, rest);
    kernels::linear(stream, done.rows(0, next), done.rows(first, count), ConstView{}, products);
    stream.pool().parallel_for(next, 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        float* const to = block.as<float>() + i * block.row_stride();
        const float* const from = products.as<float>() + i * products.row_stride();
        for (std::int64_t j = 0; j < count; ++j) to[j] -= from[j];
      }
    });
  }
  DiagonalBlock diagonal{count, std::vector<double>(static_cast<std::size_t>(count * count))};
  for (std::int64_t i = 0; i < count; ++i) {
    const float* const from = block.as<float>() + (first + i) * block.row_stride();
    for (std::int64_t j = i; j < count; ++j) diagonal.at(i, j) = static_cast<double>(from[j]);
  }
  if (!factor_block(diagonal)) return false;
  for (std::int64_t i = 0; i < count; ++i) {
    float* const to = block.as<float>() + (first + i) * block.row_stride();
    for (std::int64_t j = i; j < count; ++j) to[j] = static_cast<float>(diagonal.at(i, j));
  }
  if (first == 0) return true;
  const View inverse = inverse_.view().rows(0, count).columns(0, count);
  invert_block(diagonal, inverse);
  const View above = products.rows(0, first);
  kernels::linear(stream, block.rows(0, first), ConstView(inverse), ConstView{}, above);
  for (std::int64_t i = 0; i < first; ++i) {
    std::copy_n(above.as<float>() + i * above.row_stride(), count,
                block.as<float>() + i * block.row_stride());
  }
  return true;
}

}  // namespace

std::int64_t GptqHessian::work(std::int64_t columns) { return factor_work(columns); }

GptqHessian::GptqHessian(Stream& stream, const InputMoments& moments, const GptqOptions& options,
                         const OnWork& on_work)
    : options_(options), damping_(options.damping) {
  check_options(options);
  const std::int64_t columns = moments.columns();
  std::vector<float> diagonal(static_cast<std::size_t>(columns));
  for (std::int64_t k = 0; k < columns; ++k) {
    const auto number = static_cast<float>(2 * moments.mean(k, k));
    if (!std::isfinite(number)) {
      throw Error(ErrorCode::kBadModel,
                  std::string("the squares of a layer's inputs are beyond the range of f32") +
                      kWithoutCalibration);
    }
    diagonal[static_cast<std::size_t>(k)] = number;
    dead_.push_back(number == 0 ? 1 : 0);
  }
  is_zero_ = std::find(dead_.begin(), dead_.end(), 0) == dead_.end();
  std::replace(diagonal.begin(), diagonal.end(), 0.0F, 1.0F);
  order_ = order_columns(diagonal, options);
  if (is_zero_) std::fill(dead_.begin(), dead_.end(), 0);
  const double mean =
      std::accumulate(diagonal.begin(), diagonal.end(), 0.0) / static_cast<double>(columns);
  factor_ = PaddedMatrix(columns, columns);
  for (; damping_ < 1; damping_ += kDampingStep) {
    added_ = is_zero_ ? 0 : damping_ * mean;
    fill(stream.pool(), moments, diagonal, on_work);
    const bool is_first = damping_ == options.damping;
    if (Factorisation(factor_.view(), on_work, is_first).run(stream)) return;
  }
  throw Error(ErrorCode::kBadModel,
              "the products of a layer's inputs are not positive definite with any damping below "
              "1; give clips that differ more");
}

void GptqHessian::fill(ThreadPool& pool, const InputMoments& moments,
                       const std::vector<float>& diagonal, const OnWork& on_work) {
  const double scale = moments.num_rows() == 0 ? 0 : 2 / static_cast<double>(moments.num_rows());
  for (std::int64_t first = 0; first < columns(); first += kRowsOfFill) {
    pool.parallel_for(
        std::min(kRowsOfFill, columns() - first), 16, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = first + begin; i < first + end; ++i) {
            float* const to = factor_.row(i) + i;
            moments.read(order_, i, i, scale,
                         std::span(to, static_cast<std::size_t>(columns() - i)));
            const auto column = static_cast<std::size_t>(order_[static_cast<std::size_t>(i)]);
            to[0] = diagonal[column] + static_cast<float>(added_);
          }
        });
    report_work(on_work, 0);
  }
}

}  // namespace caption::quantise
