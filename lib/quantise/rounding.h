// quantise/rounding.h: matrices rounded to integer codes in groups of columns, each weight to the
// nearest code (RTN). The layouts (compressed_tensors_format.cpp, awq_format.cpp, gptq_format.cpp)
// pack what these functions return, and what the solvers of calibrated quantisation
// (gptq_solver.h) do.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/thread_pool.h"
#include "tensor/tensor.h"

namespace caption::quantise {

// With g = group_of[k], or k / group_columns where that is empty:
// value[n, k] = scale[n, g] * (code[n, k] - zero[n, g]).
struct RoundedMatrix {
  std::int64_t rows = 0;                 // N
  std::int64_t columns = 0;              // K
  std::int64_t group_columns = 0;        // the last group may be shorter
  std::vector<std::int8_t> codes = {};   // [N, K]
  std::vector<float> scales = {};        // [N, groups], before they are rounded to a file's dtype
  std::vector<std::uint8_t> zeros = {};  // [N, groups]; empty: 0
  std::vector<std::int32_t> group_of = {};  // [K], or empty

  std::int64_t groups() const { return (columns + group_columns - 1) / group_columns; }
};

// All take a matrix [N, K], f32, bf16 or f16, dense, and throw Error(kBadModel) for a weight that
// is not finite, or that f16 does not hold where weights are rounded to it.

// LLM.int8(): w to f16, scale = max|w| of a row, code = round(w * ((1 / scale) * 127)); a row of
// zeros gets the codes 0. value = scale * code / 127: the scale is not divided here. Source:
// bitsandbytes 0.50 (backends/default/ops.py, int8_vectorwise_quant; nn/modules.py, Int8Params).
RoundedMatrix round_llm_int8(ThreadPool& pool, ConstView matrix);

// Symmetric integers of compressed-tensors: scale = max(max|w| / (2^bits - 1) * 2, 2^-23), rounded
// to the matrix's dtype; code = round(clamp(w / scale, -2^(bits - 1), 2^(bits - 1) - 1)). In f32.
// `group_columns` 0: a whole row. Source: compressed-tensors 0.12 (quantization/utils/helpers.py,
// calculate_qparams; quantization/lifecycle/forward.py, _quantize).
RoundedMatrix round_symmetric(ThreadPool& pool, ConstView matrix, int bits,
                              std::int64_t group_columns);

// AutoAWQ without its search: w to f16, and every operation rounded to f16:
// scale = max(max - min, 1e-5) / 15, zero = clamp(-round(min / scale), 0, 15),
// code = clamp(round(w / scale) + zero, 0, 15). The range includes 0; AutoAWQ's does not, which
// cuts off a group whose weights all have one sign. `group_columns` divides K.
// Source: AutoAWQ 0.2 (awq/quantize/quantizer.py, pseudo_quantize_tensor).
RoundedMatrix round_awq(ThreadPool& pool, ConstView matrix, std::int64_t group_columns);

// GPTQ without its correction: symmetric scale = 2 * max|w| / 15, zero = 8; asymmetric
// scale = (max(w, 0) - min(w, 0)) / 15, zero = round(-min(w, 0) / scale). Both give zeros
// scale = 2 / 15, zero = 8. code = clamp(round(w / scale) + zero, 0, 15). In f32. The tools
// give a group without negative weights half the symmetric scale, and cut its larger half off; not
// so here. Source: GPTQModel 5 to 7 (quantization/quantizer.py, find_params and quantize).
RoundedMatrix round_gptq(ThreadPool& pool, ConstView matrix, std::int64_t group_columns,
                         bool symmetric = true);

}  // namespace caption::quantise
