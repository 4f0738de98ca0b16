#include "quantise/internal/calibrated_layers.h"

#include <array>
#include <cstdio>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "model/stored_names.h"

namespace caption::quantise {
namespace {

std::string file_of(std::size_t layer) {
  std::array<char, 64> name{};
  std::snprintf(name.data(), name.size(), "caption-cli.layer-%05zu.safetensors", layer);
  return name.data();
}

std::vector<LayerPlan> plan_layers(const CalibratedSource& source) {
  std::map<std::string, const TensorPlan*> plans;
  for (const ShardPlan& shard : source.plan.shards) {
    for (const TensorPlan& tensor : shard.tensors) plans[tensor.name] = &tensor;
  }
  const auto find = [&](const std::string& name) -> const TensorPlan* {
    const auto found = plans.find(name);
    return found == plans.end() ? nullptr : found->second;
  };
  std::vector<LayerPlan> layers;
  for (LayerNames& names : name_layers(source.blueprint, source.checkpoint)) {
    LayerPlan& layer = layers.emplace_back();
    layer.input_norm = find(names.input_norm);
    layer.post_attention_norm = find(names.post_attention_norm);
    for (std::size_t i = 0; i < kNumMatrices; ++i) {
      const TensorPlan* const matrix = find(names.matrices[i]);
      layer.matrices[i] = matrix != nullptr && matrix->matrix ? matrix : nullptr;
      layer.biases[i] = find(names.biases[i]);
    }
    layer.names = std::move(names);
  }
  return layers;
}

// Returns the embedding table as the file has it.
ConstView embedding_of(const CalibratedSource& source) {
  const model::ParameterId id = source.blueprint.decoder.embedding;
  const auto places = model::find_stored_names(source.blueprint, source.checkpoint);
  const auto at = static_cast<std::size_t>(id);
  return source.checkpoint.require(places[at].name, source.blueprint.parameters[at].shape);
}

}  // namespace

CalibratedLayers::CalibratedLayers(Stream& stream, const CalibratedSource& source)
    : stream_(stream), source_(source), layers_(plan_layers(source)) {
  const QuantiseOptions& options = source.options;
  solver_ = options.format == "gptq"
                ? make_gptq_layers(stream, source.format, options.format_options, options.damping)
                : make_awq_layers(stream, source.format, options.format_options);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    for (const weights::PlannedTensor& part : solver_->parts(layers_[i])) {
      layer_of_.emplace(part.name, i);
    }
  }
}

std::vector<std::string> CalibratedLayers::files() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < layers_.size(); ++i) names.push_back(file_of(i));
  return names;
}

std::int64_t CalibratedLayers::missing_file_bytes(const OutputFolder& folder) const {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (folder.names_shard(file_of(i))) continue;
    for (const weights::PlannedTensor& part : solver_->parts(layers_[i])) sum += part.size_bytes;
  }
  return sum;
}

std::int64_t CalibratedLayers::work(std::size_t layer, const HiddenStates& hidden) const {
  return is_found_[layer] ? run_work(hidden) : solver_->work(layers_[layer], hidden);
}

bool CalibratedLayers::make(OutputFolder& folder,
                            const std::function<void(const LayersProgress&)>& on_progress) {
  progress_ = {};
  const Stopwatch watch;
  std::int64_t last_us = 0;  // watch.elapsed_us() at the last report
  const OnWork on_work = [&](std::int64_t multiply_adds) {
    if (is_stopped()) throw Error(ErrorCode::kCancelled, "stopped");
    const std::int64_t before_us = std::exchange(last_us, watch.elapsed_us());
    if (multiply_adds == 0) return;
    progress_.work_us += last_us - before_us;
    progress_.work_done += multiply_adds;
    progress_.layer_part =
        static_cast<double>(progress_.work_done - layer_begin_) / static_cast<double>(layer_work_);
    on_progress(progress_);
  };
  try {
    const std::size_t end = find_files(folder);
    if (end > 0) {
      HiddenStates hidden(stream_, *source_.blueprint.text, *source_.options.calibration,
                          embedding_of(source_), on_work);
      for (std::size_t i = 0; i < end; ++i) progress_.work_total += work(i, hidden);
      for (std::size_t i = 0; i < end; ++i) {
        make_layer(i, hidden, folder);
        progress_.layers_done += 1;
        progress_.layer_part = 0;
        on_progress(progress_);
      }
    }
    if (end == layers_.size()) return true;
    progress_.layers_done = num_layers();
    on_progress(progress_);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCancelled) throw;
    return false;
  }
  return true;
}

std::size_t CalibratedLayers::find_files(const OutputFolder& folder) {
  std::size_t end = 0;
  is_found_.clear();
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    is_found_.push_back(folder.has_shard(file_of(i), source_.options.stop));
    if (!is_found_.back()) end = i + 1;
  }
  return end;
}

void CalibratedLayers::make_layer(std::size_t index, HiddenStates& hidden, OutputFolder& folder) {
  const LayerPlan& layer = layers_[index];
  layer_begin_ = progress_.work_done;
  layer_work_ = work(index, hidden);
  hidden.begin_layer(index);
  LayerWeights weights = read_layer(source_.checkpoint, layer.names, hidden.on_work());
  for (const std::string& name : layer.names.all()) source_.checkpoint.release(name);
  const std::filesystem::path path = folder.path() / file_of(index);
  if (is_found_[index]) {
    const weights::Checkpoint made = weights::Checkpoint::open(path);
    solver_->pass(layer, std::move(weights), made, hidden);
    return;
  }
  const NewTensors tensors = solver_->make(layer, std::move(weights), hidden);
  if (const auto changed = source_.checkpoint.find_changed_file()) {
    throw Error(ErrorCode::kBadModel, *changed);
  }
  weights::SafetensorsWriter writer(path, solver_->parts(layer));
  for (const auto& [name, bytes] : tensors) writer.write(name, bytes);
  writer.finish();
  folder.add_shard(file_of(index));
}

void CalibratedLayers::copy(const OutputFolder& folder, const std::string& part,
                            weights::SafetensorsWriter& writer) {
  const std::size_t layer = layer_of_.at(part);
  if (!open_.contains(layer)) {
    open_.clear();
    open_.emplace(layer, weights::Checkpoint::open(folder.path() / file_of(layer)));
  }
  writer.copy(open_.at(layer), part);
}

void CalibratedLayers::remove_files(OutputFolder& folder) const {
  for (std::size_t i = 0; i < layers_.size(); ++i) folder.remove_shard(file_of(i));
}

}  // namespace caption::quantise
