// quantise/input_moments.h: what the solvers of calibrated quantisation know about the inputs of a
// linear layer y = W x: the second moments and the mean magnitudes of x over calibration rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/stream.h"
#include "base/on_work.h"
#include "tensor/tensor.h"

namespace caption::quantise {

// S = sum over the rows x of x * x^T, [K, K]. Products are f32, in sums over at most kRowsAtATime
// rows; these are added in f64. Holds 4 * K * (K + 128) bytes: the upper triangle, in f64.
// Equal calls in equal order on the same CPU tier give equal bits, with any number of threads. For
// one thread at a time.
class InputMoments {
 public:
  // Throws Error(kInternal) unless columns >= 1.
  explicit InputMoments(std::int64_t columns);

  // rows [n, K] f32, rows may be strided, n >= 0. Needs 4 * (K + 32) * (min(n, kRowsAtATime) + 128)
  // bytes meanwhile. Throws Error(kBadModel) when an input is not finite, and adds nothing then.
  // What on_work throws leaves sums of no use.
  void add(Stream& stream, ConstView rows, const OnWork& on_work = {});
  // Adds the sums and the number of rows of `other`, which has the same K.
  void merge(const InputMoments& other);

  std::int64_t columns() const { return columns_; }    // K
  std::int64_t num_rows() const { return num_rows_; }  // summed over all calls
  // Returns S[i, j] / num_rows, the mean of x[i] * x[j]; 0 without rows.
  double mean(std::int64_t i, std::int64_t j) const;

  // Writes scale * S[i, j] for i = order[row], j = order[first + c], where c is the index in `out`:
  // a part of a row of S whose columns and rows are permuted.
  void read(std::span<const std::int32_t> order, std::int64_t row, std::int64_t first, double scale,
            std::span<float> out) const;

  static constexpr std::int64_t kRowsAtATime = 1024;

 private:
  double sum(std::int64_t i, std::int64_t j) const;
  // Adds the products of inputs [K, n] to a panel; `products` [128, K] is scratch memory.
  void add_panel(Stream& stream, std::size_t panel, ConstView inputs, View products);

  std::int64_t columns_ = 0;
  std::int64_t num_rows_ = 0;
  // Panel p has the rows [128 * p, 128 * (p + 1)) and the columns from 128 * p on of S.
  std::vector<std::vector<double>> panels_;
};

// The mean of (D x)[n]^2 over the calibration rows x and the rows n of a difference of weights
// D [N, K] f32, rows may be strided: the mean squared error of the layer's output. In f64 over sums
// in f32.
double mean_squared_output(Stream& stream, ConstView difference, const InputMoments& moments,
                           const OnWork& on_work = {});

// The multiply-adds that InputMoments::add() reports for a row of K numbers, and
// mean_squared_output() for a row of a difference of K columns.
std::int64_t moments_work(std::int64_t columns);

// The mean |x[k]| over calibration rows, per column, summed in f64. For one thread at a time.
class InputMagnitudes {
 public:
  explicit InputMagnitudes(std::int64_t columns);

  // rows [n, K] f32, rows may be strided. Throws Error(kBadModel) when an input is not finite, and
  // adds nothing then.
  void add(ConstView rows);
  std::int64_t num_rows() const { return num_rows_; }
  // Returns [K]; zeros without rows.
  std::vector<float> means() const;

 private:
  std::int64_t num_rows_ = 0;
  std::vector<double> sums_;
};

}  // namespace caption::quantise
