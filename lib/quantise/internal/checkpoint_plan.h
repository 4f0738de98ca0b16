// quantise/internal/checkpoint_plan.h: what becomes of each tensor of a checkpoint, and in which
// file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/blueprint.h"
#include "quantise/format.h"
#include "quantise/quantise_checkpoint.h"
#include "weights/checkpoint.h"
#include "weights/safetensors_writer.h"

namespace caption::quantise {

// A tensor of the source.
struct TensorPlan {
  std::string name;
  std::optional<MatrixPlan> matrix;  // set: it is quantised
  std::int64_t source_bytes = 0;
  std::vector<weights::PlannedTensor> parts;  // what stands for it in the output

  std::int64_t output_bytes() const;
};

struct ShardPlan {
  std::string file;  // "model-00001-of-00002.safetensors"
  std::vector<TensorPlan> tensors;

  std::vector<weights::PlannedTensor> parts() const;
  std::int64_t output_bytes() const;
};

struct CheckpointPlan {
  std::vector<ShardPlan> shards;
  std::vector<KeptMatrix> kept;
  ConfigSubject subject;
  std::int64_t num_matrices = 0;
  std::int64_t num_tensors = 0;
  std::int64_t source_bytes = 0;
  std::int64_t output_bytes = 0;
};

// The tensors of one module stay in one file. Throws Error(kBadModel) when the checkpoint lacks a
// matrix of the decoder or has it in another shape or not as floating-point numbers; kUnavailable
// when the format can hold none of them.
CheckpointPlan plan_checkpoint(const model::Blueprint& blueprint, const weights::Checkpoint& source,
                               const Format& format, std::int64_t max_shard_bytes);

// The content of model.safetensors.index.json.
std::string index_json(const CheckpointPlan& plan);

}  // namespace caption::quantise
