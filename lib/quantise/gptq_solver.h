// quantise/gptq_solver.h: GPTQ (arXiv:2210.17323): 4-bit codes of a matrix W [N, K] that keep its
// outputs W x for calibration inputs x. Columns are rounded one after another, and the weights of
// later columns make up for the errors of earlier ones.
//
// With H = 2 / n * sum x x^T over the n calibration rows:
//   dead        columns with H[k, k] = 0: H[k, k] = 1 and W[:, k] = 0
//   order       the columns are permuted as GptqOptions::order says
//   damping     H += damping * mean(diag H) * I; where H is not positive definite in f32, damping
//               grows in steps of 0.01
//   factor      H = U U^T, U upper triangular
//   column k    w = W[:, k] + sum over j < k of (W[:, j] - Q[:, j]) * U[j, k] / U[k, k]
//               code = clamp(round(w / scale) + zero, 0, 15), Q[:, k] = scale * (code - zero)
//   groups      scale and zero of a group are found when the block of 128 columns that has it
//               begins, of the weights as they would be then, with the errors of earlier blocks
//               made up for; those of whole rows (group_columns 0) are found of W as given
//   symmetric   scale = 2 * max|w| / 15, zero = 8
//   asymmetric  scale = (max(w, 0) - min(w, 0)) / 15, zero = round(-min(w, 0) / scale)
//   clipped     GptqOptions::clips: scales times 1 - i / 20, i = 0 .. 9, rounded to f16, of which
//               the one with the least sum over the group of ((w - Q) * U[k, k])^2 counts, the
//               first of equal ones
//
// Source: GPTQModel 7.7.0 (quantization/gptq.py, GPTQ.quantize and hessian_inverse;
// quantization/quantizer.py, Quantizer.find_params; quantization/gar.py), without static_groups and
// mse. It updates W with rows of the Cholesky factor of H^-1; the sum above is the same number
// (QuIP, arXiv:2307.13304, theorem 6) and needs no inverse. Its symmetric scale of a group without
// negative weights is half of the one here, which cuts the larger half of the group off; a zero
// Hessian it refuses or rounds with another method. The candidates of clipping are those of AutoAWQ
// 0.2.9 (awq/quantize/quantizer.py, _compute_best_clip), where GPTQModel has those of `mse`, which
// is off there; ((w - Q) * U[k, k])^2 is the part of the loss from rounding a weight that the
// corrections of later columns cannot remove.
//
// Measured: N = K = 4096, 8192 inputs, groups of 128: moments 1.1 s, factor 0.26 s, codes 0.96 s of
// processor time; GPTQModel with torch 2.9.1 2.9 s, 3.4 s, 21.4 s. Two AMD EPYC vCPUs with AVX-512,
// 2026-11-23, tests/quantise/solver_bench.cpp and scripts/peers/calibration.py.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/stream.h"
#include "base/on_work.h"
#include "quantise/input_moments.h"
#include "quantise/padded_matrix.h"
#include "quantise/rounding.h"
#include "tensor/tensor.h"

namespace caption::quantise {

enum class GptqOrder {
  kStored,  // desc_act and act_group_aware false
  // Descending H[k, k]. Groups are formed in this order, so a file needs g_idx: desc_act.
  kActivation,
  // Groups of stored columns, in descending order of their largest H[k, k], and within a group by
  // H[k, k]: the file is as with kStored. act_group_aware, GPTQModel's default (arXiv:2505.14638).
  kGroupsByActivation,
};

struct GptqOptions {
  std::int64_t group_columns = 128;  // divides 128, or 0: whole rows; the last group may be shorter
  bool symmetric = true;
  GptqOrder order = GptqOrder::kGroupsByActivation;
  double damping = 0.05;  // more than 0, less than 1
  bool clips = false;     // groups are clipped, for scales of f16; not of whole rows
};

// The factor of the Hessian of a layer's inputs; matrices with the same inputs (q, k and v) share
// it. Immutable, thread-safe. Holds 4 * K^2 bytes.
class GptqHessian {
 public:
  // Throws Error(kUsage) for options out of range; kBadModel when H is not finite, or not positive
  // definite with any damping below 1. If there are several factorisations, with growing damping,
  // the first one is reported as work, the parts of the others as 0.
  GptqHessian(Stream& stream, const InputMoments& moments, const GptqOptions& options,
              const OnWork& on_work = {});
  // The multiply-adds that the constructor reports for K columns.
  static std::int64_t work(std::int64_t columns);

  const GptqOptions& options() const { return options_; }
  std::int64_t columns() const { return static_cast<std::int64_t>(order_.size()); }
  // The damping that was used: options().damping or more.
  double damping() const { return damping_; }
  // Columns of the matrix in the order in which they are rounded.
  const std::vector<std::int32_t>& order() const { return order_; }
  bool is_dead(std::int64_t column) const { return dead_[static_cast<std::size_t>(column)] != 0; }
  // Whether no input differed from zero. H is then I and no column dead, so that a matrix is
  // rounded to nearest.
  bool is_zero() const { return is_zero_; }
  // U [K, K] f32 in that order, rows are strided; numbers below the diagonal mean nothing.
  ConstView factor() const { return factor_.view(); }
  // What damping added to the diagonal, in units of H.
  double added() const { return added_; }

 private:
  // Writes the upper triangle of the damped H into factor_; `diagonal` is that of H, indexed by
  // stored column.
  void fill(ThreadPool& pool, const InputMoments& moments, const std::vector<float>& diagonal,
            const OnWork& on_work);

  GptqOptions options_;
  std::vector<std::int32_t> order_;
  std::vector<std::uint8_t> dead_;  // indexed by stored column
  bool is_zero_ = false;
  double damping_ = 0;
  double added_ = 0;
  PaddedMatrix factor_;
};

struct GptqSolution {
  RoundedMatrix matrix;  // its group_of is set for kActivation
  // The mean squared error of the layer's output over calibration rows and output
  // features: the value of mean_squared_output(), summed in another order. 0 when all inputs are 0.
  double loss = 0;
};

// matrix [N, K] f32, bf16 or f16, dense, K that of the Hessian. The codes depend on matrix, Hessian
// and CPU tier only, not on the number of threads. Needs 4 * (N + 256) * (K + 32) bytes besides the
// result meanwhile. Throws Error(kBadModel) when a weight is not finite, or with clips beyond the
// range of f16.
GptqSolution solve_gptq(Stream& stream, ConstView matrix, const GptqHessian& hessian,
                        const OnWork& on_work = {});
// The multiply-adds that solve_gptq() reports for a row of K weights.
std::int64_t gptq_work(std::int64_t columns);

}  // namespace caption::quantise
