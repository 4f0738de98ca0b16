#include "quantise/internal/checkpoint_plan.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "base/json.h"
#include "model/stored_names.h"

namespace caption::quantise {
namespace {

using model::Role;

constexpr std::string_view kWeight = ".weight";

std::string module_of(const std::string& tensor) {
  CAPTION_CHECK(tensor.ends_with(kWeight), "quantise: " + tensor + " is no weight of a module");
  return tensor.substr(0, tensor.size() - kWeight.size());
}

// Returns the first part of a name that is not one of the levels by which versions of transformers
// differ: "vision_tower" of "model.vision_tower.layers.0".
std::string kept_part(std::string_view name) {
  for (const std::string_view level : {"model.", "language_model."}) {
    if (name.starts_with(level)) name.remove_prefix(level.size());
  }
  return std::string(name.substr(0, name.find('.')));
}

bool is_floating(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
}

MatrixPlan plan_matrix(const weights::Checkpoint& source, const std::string& name,
                       const Shape& shape) {
  const ConstView view = source.require(name, shape);
  if (!is_floating(view.dtype())) {
    throw Error(
        ErrorCode::kBadModel,
        source.where(name) + " holds " + std::string(dtype_name(view.dtype())) +
            "; weights of f32, bf16 or f16 were expected: save the model again in one of them");
  }
  return {.module = module_of(name), .shape = shape, .dtype = view.dtype()};
}

// The matrices of the decoder by their tensors' names, and the parts of the model that stay.
struct Decoder {
  std::map<std::string, MatrixPlan> matrices;
  std::set<std::string> kept_parts = {"lm_head"};
};

Decoder find_decoder(const model::Blueprint& blueprint, const weights::Checkpoint& source) {
  const std::vector<model::StoredName> places = model::find_stored_names(blueprint, source);
  Decoder decoder;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const model::Parameter& parameter = blueprint.parameters[i];
    const std::string& name = places[i].name;
    if (parameter.role == Role::kEncoderLinear) decoder.kept_parts.insert(kept_part(name));
    if (parameter.role != Role::kDecoderLinear || decoder.matrices.contains(name)) continue;
    decoder.matrices.emplace(name,
                             plan_matrix(source, name, model::tensor_shape(parameter, places[i])));
  }
  return decoder;
}

std::string shard_name(std::size_t index, std::size_t count) {
  if (count == 1) return "model.safetensors";
  std::array<char, 64> name{};
  std::snprintf(name.data(), name.size(), "model-%05zu-of-%05zu.safetensors", index + 1, count);
  return name.data();
}

std::vector<ShardPlan> plan_shards(std::vector<TensorPlan> tensors, std::int64_t max_bytes) {
  std::vector<ShardPlan> shards(1);
  std::int64_t used = 0;
  for (TensorPlan& tensor : tensors) {
    const std::int64_t bytes = tensor.output_bytes();
    if (used > 0 && used + bytes > max_bytes) {
      shards.emplace_back();
      used = 0;
    }
    used += bytes;
    shards.back().tensors.push_back(std::move(tensor));
  }
  for (std::size_t i = 0; i < shards.size(); ++i) shards[i].file = shard_name(i, shards.size());
  return shards;
}

}  // namespace

std::int64_t TensorPlan::output_bytes() const {
  return std::accumulate(parts.begin(), parts.end(), std::int64_t{0},
                         [](std::int64_t sum, const auto& part) { return sum + part.size_bytes; });
}

std::vector<weights::PlannedTensor> ShardPlan::parts() const {
  std::vector<weights::PlannedTensor> all;
  for (const TensorPlan& tensor : tensors) {
    all.insert(all.end(), tensor.parts.begin(), tensor.parts.end());
  }
  return all;
}

std::int64_t ShardPlan::output_bytes() const {
  return std::accumulate(tensors.begin(), tensors.end(), std::int64_t{0},
                         [](std::int64_t sum, const auto& t) { return sum + t.output_bytes(); });
}

CheckpointPlan plan_checkpoint(const model::Blueprint& blueprint, const weights::Checkpoint& source,
                               const Format& format, std::int64_t max_shard_bytes) {
  if (!blueprint.text.has_value()) {
    throw Error(
        ErrorCode::kBadModel,
        source.name() +
            ": has no decoder to quantise; give the folder of a captioner or a language model");
  }
  Decoder decoder = find_decoder(blueprint, source);
  CheckpointPlan plan;
  std::vector<TensorPlan> tensors;
  for (const std::string& name : source.names()) {
    const weights::PlannedTensor copy = weights::plan_copy(source, name);
    TensorPlan tensor{.name = name, .matrix = {}, .source_bytes = copy.size_bytes, .parts = {copy}};
    if (const auto found = decoder.matrices.find(name); found != decoder.matrices.end()) {
      const MatrixPlan& matrix = found->second;
      if (auto reason = format.obstacle(matrix)) {
        plan.kept.push_back({.tensor = name, .reason = std::move(*reason)});
        plan.subject.kept_matrices.push_back(
            matrix.module.substr(std::min(matrix.module.find("layers."), matrix.module.size())));
      } else {
        if (plan.num_matrices++ == 0) plan.subject.dtype = matrix.dtype;
        tensor.matrix = matrix;
        tensor.parts = format.parts(matrix);
      }
    }
    plan.source_bytes += tensor.source_bytes;
    plan.output_bytes += tensor.output_bytes();
    tensors.push_back(std::move(tensor));
  }
  if (plan.num_matrices == 0) {
    throw Error(ErrorCode::kUnavailable,
                source.name() + ": none of its " +
                    counted(std::ssize(decoder.matrices), "matrix", "matrices") +
                    " can be held in this format: " + plan.kept.front().tensor + ": " +
                    plan.kept.front().reason + "; int8 and nf4 hold any");
  }
  plan.num_tensors = std::ssize(tensors);
  plan.subject.kept_parts.assign(decoder.kept_parts.begin(), decoder.kept_parts.end());
  plan.subject.decoder_layers =
      blueprint.vision.has_value() ? "model.language_model.layers" : "model.layers";
  plan.shards = plan_shards(std::move(tensors), max_shard_bytes);
  return plan;
}

std::string index_json(const CheckpointPlan& plan) {
  std::map<std::string, std::string> file_of;
  for (const ShardPlan& shard : plan.shards) {
    for (const weights::PlannedTensor& part : shard.parts()) file_of[part.name] = shard.file;
  }
  std::string text =
      "{\n  \"metadata\": {\n    \"total_size\": " + std::to_string(plan.output_bytes) +
      "\n  },\n  \"weight_map\": {";
  const char* separator = "\n";
  for (const auto& [name, file] : file_of) {
    text += separator + ("    " + json_quote(name)) + ": " + json_quote(file);
    separator = ",\n";
  }
  return text + "\n  }\n}\n";
}

}  // namespace caption::quantise
