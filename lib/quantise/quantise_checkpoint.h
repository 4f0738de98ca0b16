// quantise/quantise_checkpoint.h: makes a quantised checkpoint of a model's folder.
//
// The matrices of the decoder's layers become codes (quantise/format.h); every other tensor keeps
// its bytes, and all tensors their names. config.json gets a quantization_config; the other files
// are copied. One matrix with its codes is in memory at a time.
//
// With calibration, one layer is in memory at a time, and the hidden states of all prompts
// (internal/hidden_states.h). Layers are made in their order, each in a file of its own until all
// are there. AWQ also changes norms and biases, by which it divides what it multiplies columns of
// matrices by. In bytes, for T tokens and a layer of W weights in matrices of at most K columns:
// GPTQ 4 T (hidden + heads * head_dim) + 4 W + 8 K^2 and AWQ 4 T hidden more, besides the solvers'
// scratch memory (quantise/gptq_solver.h, quantise/awq_search.h).
//
// Files of weights are made one after another, each under a temporary name until it is complete and
// on the disk, and entered with their digests in the manifest beside them (kManifestName).
// config.json comes last. A run that ended early, however, is so continued by the same call: a file
// that the manifest names is kept if its size and digest are those, and every other one is made
// again. The result has the same bytes.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backend/cpu_tier.h"
#include "base/digest_cache.h"
#include "base/free_space.h"
#include "model/model_files.h"
#include "quantise/calibration.h"
#include "quantise/format.h"

namespace caption::quantise {

inline constexpr const char* kManifestName = model::kQuantizeManifest;

struct QuantiseProgress {
  std::int64_t tensors_done = 0;
  std::int64_t tensors_total = 0;
  std::int64_t bytes_done = 0;  // read from the source, for the files that this call makes
  std::int64_t bytes_total = 0;
  // With calibration, which makes layers before it makes files of weights; 0 without.
  std::int64_t layers_done = 0;
  std::int64_t layers_total = 0;
  double layer_part = 0;  // share of the current layer's work that is done, 0 to 1
  // Multiply-adds. Layers that an earlier call made count only what the hidden states need to pass
  // them, and nothing where no later layer is missing.
  std::int64_t work_done = 0;
  std::int64_t work_total = 0;
  std::int64_t work_us = 0;     // spent on work_done; reading and writing take the rest
  std::int64_t elapsed_us = 0;  // time since the first layer or tensor
  std::int64_t layers_us = 0;   // the part of elapsed_us that was spent on layers
};

struct QuantiseOptions {
  std::filesystem::path model;   // a folder with safetensors
  std::filesystem::path output;  // a folder, made if it is missing
  std::string format;            // a name of formats()
  FormatOptions format_options = {};
  // For awq and gptq, borrowed: the codes are chosen with what these prompts make of the inputs of
  // each matrix. Null: every weight is rounded to the nearest code.
  const Calibration* calibration = nullptr;
  // For gptq with calibration (quantise/gptq_solver.h); empty: GPTQModel's default.
  std::optional<double> damping = {};
  CpuTier cpu_tier = fastest_cpu_tier();         // computes the calibration
  std::int64_t max_shard_bytes = 5'000'000'000;  // largest weight file; one tensor may exceed it
  int num_threads = 1;
  DigestCache digests = {};
  FreeBytes free_bytes = caption::free_bytes;
  const std::atomic<bool>* stop = nullptr;  // ends the call soon after it has become true
  std::function<void(const QuantiseProgress&)> on_progress = {};
};

// A matrix of the decoder that stays as it is in the source.
struct KeptMatrix {
  std::string tensor;
  std::string reason;
};

struct QuantiseOutcome {
  bool is_complete = false;  // false: stopped
  std::int64_t num_matrices = 0;
  std::vector<KeptMatrix> kept = {};
  std::int64_t source_bytes = 0;  // bytes of all tensors
  std::int64_t output_bytes = 0;  // bytes of all weight files
  std::int64_t num_shards = 0;
  std::int64_t shards_found = 0;  // complete ones of an earlier call
  // Files without weights that are not as this call would make them, and stay as they are.
  std::vector<std::string> edited_files = {};
  std::vector<std::string> repaired_files = {};  // JSON that could not be parsed, and is made again
};

// Throws Error as quantise_checkpoint() does for options that contradict each other, and for a
// model that is no plain folder. Reads no weights.
void check_options(const QuantiseOptions& options);

// Throws as quantise_checkpoint() for what is wrong with the output whatever the calibration's
// prompts are: it holds other files, is of other settings, is being written by another process, or
// has no room. Writes nothing. `options.calibration` may be without prompts.
void check_output(const QuantiseOptions& options);

// Throws Error: kUsage for a model that is no folder of safetensors, an output that is this folder,
// or an unknown format; kBadModel for a model that is quantised already or broken; kUnavailable for
// one that this build does not read, or that the format cannot hold; kOutputConflict when the
// output holds other files, is of other settings, or is being written by another process; kIo,
// kOutOfMemory.
QuantiseOutcome quantise_checkpoint(const QuantiseOptions& options);

}  // namespace caption::quantise
