// quantise/awq_search.h: AWQ (arXiv:2306.00978): before a matrix is rounded, its columns are
// multiplied by scales, by which whatever makes its inputs is divided; they are searched on
// calibration inputs.
//
// A layer goes through these steps:
//   1. search_scales() for each set of matrices with the same input, on the layer before anything
//      after that input is rounded
//   2. multiply_columns() of the set, divide() of what makes its input
//   3. solve_gptq() (quantise/gptq_solver.h) of the new weights with the new inputs, with zeros and
//      clipping
//
// Source: AutoAWQ 0.2.9 (awq/quantize/quantizer.py, _search_best_scale, _compute_best_scale,
// pseudo_quantize_tensor; awq/quantize/scale.py), in f32. The range of a group includes 0 here as
// in round_awq(); AutoAWQ's does not. In step 3 AutoAWQ rounds to nearest, clipped, with inputs
// that no rounding before has changed. The AWQ paper combines its scales with GPTQ, too (for 2
// bits).
//
// Measured: N = K = 4096, 8192 inputs, groups of 128: scales of one linear layer 13.5 s of
// processor time; AutoAWQ with torch 2.9.1 77 s. Two AMD EPYC vCPUs with AVX-512, 2026-11-23,
// tests/quantise/solver_bench.cpp and scripts/peers/calibration.py.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "backend/stream.h"
#include "base/on_work.h"
#include "quantise/input_moments.h"
#include "tensor/tensor.h"

namespace caption::quantise {

struct AwqOptions {
  std::int64_t group_columns = 128;  // divides K; 0: whole rows
  int num_ratios = 20;               // ratio = 0, 1 / num_ratios, ...
  bool duo_scaling = true;           // scales depend on weights, too
};

// What rounding to 4 bits with zero points makes of a matrix [N, K] f32, dense, in f32; into `out`,
// which may be the same memory:
//   scale = max(max - min, 1e-5) / 15, zero = clamp(-round(min / scale), 0, 15),
//   out = (clamp(round(w / scale) + zero, 0, 15) - zero) * scale, min <= 0 <= max over a group
void pseudo_quantise(ThreadPool& pool, ConstView matrix, std::int64_t group_columns, View out);

struct AwqScales {
  std::vector<float> scales;   // [K], all positive
  double ratio = 0;            // the ratio r that gave these scales
  std::vector<double> losses;  // one for each ratio
};

// Returns the mean squared difference between the output of the module with these weights, each
// [N_i, K] f32, dense, and its output with the weights as they were.
using ModuleLoss = std::function<double(std::span<const ConstView> weights)>;

// matrices [N_i, K] f32, dense: those that have the same input; mean_inputs [K]: mean |x| per
// column. For each ratio r:
//   scales = mean|x|^r / (mean|w|^(1 - r) + 1e-4), at least 1e-4 (without duo_scaling mean|x|^r),
//   divided by sqrt(max * min); loss of pseudo_quantise(w * scales) / scales
// where |w| is divided by the largest of its group plus 1e-6. The ratio with the least loss counts;
// among equal losses the smallest ratio does. Throws Error(kBadModel) when a weight or an input is
// not finite or no loss is; Error(kInternal) for groups that do not divide K.
AwqScales search_scales(ThreadPool& pool, std::span<const ConstView> matrices,
                        std::span<const float> mean_inputs, const ModuleLoss& loss,
                        const AwqOptions& options);

// Returns the loss of a module that is one linear layer, with the weights `matrix` [N, K] f32,
// dense: mean_squared_output() of what is given minus these, which reports to `on_work`. Borrows
// stream, matrix and moments.
ModuleLoss linear_loss(Stream& stream, ConstView matrix, const InputMoments& moments,
                       OnWork on_work = {});

// matrix [N, K] f32: w[n, k] *= scales[k].
void multiply_columns(ThreadPool& pool, View matrix, std::span<const float> scales);
// The last K entries of the first axis of `tensor` f32, each divided by its scale: rows of the
// matrix [M, ...] that makes the inputs, or elements of its bias [M] or of a norm's weight [K].
void divide(View tensor, std::span<const float> scales);

}  // namespace caption::quantise
