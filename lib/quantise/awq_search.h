// quantise/awq_search.h: AWQ (arXiv:2306.00978): before a matrix is rounded to nearest, its columns
// are multiplied by scales, by which whatever makes its inputs is divided, and its largest weights
// are clipped; both are searched on calibration inputs.
//
// A layer goes through these steps, as in AutoAWQ:
//   1. search_scales() for each set of matrices with the same input, all of them on the weights and
//      inputs as they were
//   2. multiply_columns() of the set, divide() of what makes its input; the inputs are divided too
//   3. search_clip() with the new weights and inputs, clip_groups(); not for q and k
//   4. the new weights are rounded: Format::encode() of the format awq
//
// Source: AutoAWQ 0.2.9 (awq/quantize/quantizer.py, _search_best_scale, _compute_best_scale,
// _compute_best_clip, pseudo_quantize_tensor; awq/quantize/scale.py), in f32. The range of a group
// includes 0 here as in round_awq(); AutoAWQ's does not.
//
// Measured: N = K = 4096, 8192 inputs, groups of 128: scales of one linear layer 13.5 s, clipping
// 1.35 s of processor time; AutoAWQ with torch 2.9.1 77 s, 256 s (16 times 256 rows). Two AMD EPYC
// vCPUs with AVX-512, 2026-11-23, tests/quantise/solver_bench.cpp and scripts/peers/calibration.py.
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
// dense: mean_squared_output() of what is given minus these. Borrows all three.
ModuleLoss linear_loss(Stream& stream, ConstView matrix, const InputMoments& moments);

// Returns the largest magnitudes [N, K / group_columns] to which the groups of matrix [N, K] f32,
// dense, are clipped: max|w| * (1 - i / 20), i = 0 .. 9, with the least squared error of the
// group's share of the output, sum over its columns of x * (rounded - w), on every s-th row of
// inputs [T, K] f32 (rows may be strided), s = max(1, T / 512). Throws as search_scales().
std::vector<float> search_clip(Stream& stream, ConstView matrix, ConstView inputs,
                               std::int64_t group_columns, const OnWork& on_work = {});
// The multiply-adds that search_clip() reports for a matrix [N, K] and T inputs.
std::int64_t clip_work(const Shape& matrix, std::int64_t num_inputs, std::int64_t group_columns);
// limits [N, groups] as search_clip() returns them.
void clip_groups(ThreadPool& pool, View matrix, std::span<const float> limits,
                 std::int64_t group_columns);

// matrix [N, K] f32: w[n, k] *= scales[k].
void multiply_columns(ThreadPool& pool, View matrix, std::span<const float> scales);
// The last K entries of the first axis of `tensor` f32, each divided by its scale: rows of the
// matrix [M, ...] that makes the inputs, or elements of its bias [M] or of a norm's weight [K].
void divide(View tensor, std::span<const float> scales);

}  // namespace caption::quantise
