// bench/step_bench.h: times a decoder's steps on a GPU, and every operation in them, beside the
// times that bench/cuda_prediction.h predicts.
//
// A step is model::Decoder::forward() and the choice of a token per sequence, with temperature,
// top_k and top_p as the prediction assumes. Pages hold zeros, except where the step writes them:
// values change the times by the GPU's clock alone. The time of a step is that between two events,
// the steps being issued one after another without a wait, so it includes gaps only where the host
// issues more slowly than the GPU computes; CUDA graphs are not used. Operations are timed in
// further steps, issued while the GPU is still busy with an earlier one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backend/cublas_lt.h"
#include "backend/machine.h"
#include "backend/stream.h"
#include "base/default_seed.h"
#include "bench/cuda_prediction.h"
#include "bench/roofline.h"
#include "model/decoder.h"
#include "tensor/dtype.h"

namespace caption::bench {

// A prefill of `prefill_tokens`, and decoding of each number of sequences at `context_tokens`.
std::vector<CudaStep> make_steps(std::int64_t prefill_tokens, std::int64_t context_tokens,
                                 const std::vector<std::int32_t>& batches);

struct StepBenchOptions {
  std::vector<CudaStep> steps = predicted_steps();
  const CudaCard* card = nullptr;     // for the prediction; null: there is none
  const CublasLt* library = nullptr;  // times the products of dense layers, too; null: none does
  DType kv_dtype = DType::kBF16;
  int num_rounds = 5;  // steps of each kind at most, >= 1; the time is their median
  std::uint64_t seed = kDefaultSeed;
  RooflineOptions roofline = {};
  // Called before each step with its name. May be empty.
  std::function<void(const std::string&)> on_step;
};

// All calls of an operation in a step.
struct StepOperation {
  std::string operation;    // "linear_swiglu gate, up"
  std::string kernel = {};  // the predicted one's name in the record; empty: none is known
  std::int64_t calls = 0;
  double seconds = 0;           // measured
  double predicted_s = 0;       // 0: not predicted
  std::string_view limit = {};  // that the prediction names
  // The products of as many rows by the library, with 16-bit operands and without what the
  // operation does besides (norms, activations, the residual stream); 0: not measured.
  double library_s = 0;

  double ratio() const { return predicted_s > 0 ? seconds / predicted_s : 0; }
  double library_ratio() const { return library_s > 0 ? seconds / library_s : 0; }
};

struct MeasuredStep {
  CudaStep step;
  double seconds = 0;
  double predicted_s = 0;                      // 0: not predicted
  double dram_bytes = 0;                       // the least, as predicted; 0 without a prediction
  double flops = 0;                            // operations of tensor cores, as predicted
  std::vector<StepOperation> operations = {};  // the longest first

  double ratio() const { return predicted_s > 0 ? seconds / predicted_s : 0; }
};

struct StepBench {
  std::string card;  // that of the prediction, "h100"; empty: none
  std::vector<MeasuredStep> steps;
  Roofline before;
  Roofline after;

  double read_bytes_per_s() const { return (before.read_bytes_per_s + after.read_bytes_per_s) / 2; }
  double flops_per_s() const { return (before.flops_per_s + after.flops_per_s) / 2; }
};

// The card that the driver's name of a GPU means, as "NVIDIA H100 80GB HBM3" does h100; null for
// another one.
const CudaCard* find_card_of(const CudaDevice& gpu);

// `stream` is a GPU's, where the decoder's weights are, of 16 bits for a prediction. Throws
// Error(kUsage) for a step longer than the model's positions; Error(kOutOfMemory) when the pages of
// a step do not fit; Error(kUnavailable) when the GPU fails.
StepBench bench_steps(Stream& stream, model::Decoder& decoder, const StepBenchOptions& options);

// A table per step; `subject` is the heading.
std::string to_table(const std::string& subject, const StepBench& bench);
// Returns one JSON object on one line.
std::string to_json(const std::string& subject, const StepBench& bench);

}  // namespace caption::bench
