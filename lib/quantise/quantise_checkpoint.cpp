#include "quantise/quantise_checkpoint.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "base/nearest.h"
#include "base/units.h"
#include "model/read_blueprint.h"
#include "quantise/check_source.h"
#include "quantise/gptq_solver.h"
#include "quantise/internal/calibrated_layers.h"
#include "quantise/internal/checkpoint_plan.h"
#include "quantise/internal/other_files.h"
#include "quantise/internal/output_folder.h"
#include "weights/checkpoint.h"

namespace caption::quantise {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig = "config.json";
constexpr const char* kIndex = "model.safetensors.index.json";
// They change with the bytes that this program makes of the same weights.
constexpr const char* kRevision = "1";
constexpr const char* kRevisionOfCalibratedAwq = "2";
constexpr const char* kRevisionOfCalibratedGptq = "2";

const FormatEntry& require_format(const QuantiseOptions& options) {
  const FormatEntry* const entry = find_format(options.format);
  if (entry == nullptr) {
    std::vector<std::string> names;
    for (const FormatEntry& known : formats()) names.emplace_back(known.name);
    throw Error(ErrorCode::kUsage, "quantize: \"" + options.format + "\" is no format" +
                                       did_you_mean(options.format, names));
  }
  if (options.format_options.double_quant && !entry->has_double_quant) {
    throw Error(ErrorCode::kUsage, "quantize: --double-quant is for nf4 and fp4; " +
                                       options.format + " has no scales of 8 bits");
  }
  const auto refuse = [&](const char* option, const char* what) {
    throw Error(ErrorCode::kUsage, std::string("quantize: ") + option + " is for " + what + "; " +
                                       options.format + " has no such option");
  };
  const FormatOptions& format = options.format_options;
  if (format.group_columns != FormatOptions().group_columns && !entry->has_groups) {
    refuse("--group-size", "w4a16, awq and gptq");
  }
  if (options.calibration != nullptr && !entry->has_pack) refuse("--calibrate", "awq and gptq");
  const bool is_gptq = options.format == "gptq" && options.calibration != nullptr;
  if (format.act_order && !is_gptq) refuse("--act-order", "gptq with --calibrate");
  if (options.damping && !is_gptq) refuse("--damping", "gptq with --calibrate");
  return *entry;
}

// The blueprint of a captioner, or of a language model under the names that its folder has.
model::Blueprint blueprint_of(const fs::path& folder) {
  model::Blueprint blueprint = model::read_blueprint(folder);
  if (!blueprint.text.has_value() || blueprint.vision.has_value()) return blueprint;
  model::Blueprint decoder;
  decoder.name = blueprint.name;
  model::add_decoder(decoder, *blueprint.text, {"model.", ""}, {""});
  return decoder;
}

// Whether a file that is JSON by its name holds none.
bool is_damaged_json(const std::string& name, const std::string& text) {
  if (!name.ends_with(".json")) return false;
  try {
    JsonObject::parse(text, name, ErrorCode::kBadModel);
    return false;
  } catch (const Error& error) {
    if (is_of_machine(error.code())) throw;
    return true;
  }
}

// One call. The steps share these.
class Quantisation {
 public:
  Quantisation(const QuantiseOptions& options, const FormatEntry& entry)
      : options_(options),
        format_(entry.make(options.format_options)),
        source_(weights::Checkpoint::open(options.model)),
        config_(read_text_file(options.model / kConfig)),
        blueprint_(blueprint_of(options.model)),
        plan_(plan_checkpoint(blueprint_, source_, *format_, options.max_shard_bytes)),
        others_(find_other_files(options.model)),
        pool_(options.num_threads),
        stream_(pool_, options.cpu_tier) {
    // Also throws for a configuration that cannot take one more key.
    new_config_ = add_configuration(config_, format_->config(plan_.subject),
                                    (options.model / kConfig).string());
    if (options.calibration == nullptr) return;
    layers_.emplace(stream_, CalibratedSource{.options = options_,
                                              .blueprint = blueprint_,
                                              .checkpoint = source_,
                                              .plan = plan_,
                                              .format = *format_});
  }

  void check() {
    const OutputFolder folder(options_.output, settings(), output_names(), FolderAccess::kLook);
    for (const ShardPlan& shard : plan_.shards) {
      if (!folder.names_shard(shard.file)) missing_.push_back(&shard);
    }
    require_space(folder);
  }
  QuantiseOutcome run();

 private:
  Settings settings() const;
  std::set<std::string> output_names() const;
  // Bytes of the files that are not complete yet.
  std::int64_t bytes_needed(const OutputFolder& folder) const;
  void require_space(const OutputFolder& folder) const;
  bool make_shard(const ShardPlan& shard, OutputFolder& folder);
  void make_tensor(const TensorPlan& tensor, const OutputFolder& folder,
                   weights::SafetensorsWriter& writer);
  bool is_calibrated(const TensorPlan& tensor) const {
    return layers_ && layers_->has(tensor.parts.front().name);
  }
  bool make_layers(OutputFolder& folder);
  // Writes the files without weights that are not there, or are damaged; an edited one stays.
  void write_others(const OutputFolder& folder, QuantiseOutcome& outcome) const;
  void report();
  bool is_stopped() const { return options_.stop != nullptr && options_.stop->load(); }

  const QuantiseOptions& options_;
  std::unique_ptr<const Format> format_;
  weights::Checkpoint source_;
  std::string config_;
  model::Blueprint blueprint_;
  CheckpointPlan plan_;
  std::vector<std::string> others_;
  std::string new_config_;
  ThreadPool pool_;
  Stream stream_;
  std::optional<CalibratedLayers> layers_;
  std::vector<const ShardPlan*> missing_;
  QuantiseProgress progress_;
  Stopwatch watch_;
};

Settings Quantisation::settings() const {
  const FormatOptions& format = options_.format_options;
  Settings settings = {{"weights", source_.content_hash(options_.digests).hex()},
                       {kConfig, sha256_of(config_).hex()},
                       {"format", options_.format},
                       {"double quantisation", format.double_quant ? "yes" : "no"},
                       {"group size", std::to_string(format.group_columns)},
                       {"act order", format.act_order ? "yes" : "no"},
                       {"max shard size", exact_bytes(options_.max_shard_bytes)},
                       {"revision of quantize", kRevision},
                       {"calibration", layers_ ? "videos" : "none"}};
  if (!layers_) return settings;
  if (options_.format == "gptq") {
    const double damping = options_.damping.value_or(GptqOptions().damping);
    settings.emplace_back("damping", json_number(damping));
    settings.emplace_back("revision of calibrated gptq", kRevisionOfCalibratedGptq);
  } else {
    settings.emplace_back("revision of calibrated awq", kRevisionOfCalibratedAwq);
  }
  const auto& identity = options_.calibration->identity;
  settings.insert(settings.end(), identity.begin(), identity.end());
  return settings;
}

std::set<std::string> Quantisation::output_names() const {
  std::set<std::string> names(others_.begin(), others_.end());
  names.insert(kConfig);
  if (plan_.shards.size() > 1) names.insert(kIndex);
  for (const ShardPlan& shard : plan_.shards) names.insert(shard.file);
  if (!layers_) return names;
  for (std::string& file : layers_->files()) names.insert(std::move(file));
  return names;
}

std::int64_t Quantisation::bytes_needed(const OutputFolder& folder) const {
  // The index and config.json are written again by every call, beside what is there.
  std::int64_t needed = std::ssize(new_config_);
  if (plan_.shards.size() > 1) needed += std::ssize(index_json(plan_));
  for (const ShardPlan* const shard : missing_) needed += shard->output_bytes();
  // The layers' files are there until all files of weights are.
  if (layers_ && !missing_.empty()) needed += layers_->missing_file_bytes(folder);
  for (const std::string& name : others_) {
    std::error_code ignored;
    if (fs::exists(folder.path() / name, ignored)) continue;
    const std::uintmax_t size = fs::file_size(options_.model / name, ignored);
    if (!ignored) needed += static_cast<std::int64_t>(size);
  }
  return needed;
}

void Quantisation::require_space(const OutputFolder& folder) const {
  const std::optional<std::int64_t> available = options_.free_bytes(existing_folder(folder.path()));
  const std::int64_t needed = bytes_needed(folder);
  if (!available || *available >= needed) return;
  throw Error(ErrorCode::kIo, folder.path().string() + ": the files need " + format_bytes(needed) +
                                  (layers_ && !missing_.empty()
                                       ? ", those of single layers included, until all are made"
                                       : "") +
                                  ", and " + format_bytes(*available) +
                                  " are free; give another folder with -o, or make room");
}

void Quantisation::report() {
  progress_.elapsed_us = watch_.elapsed_us();
  if (options_.on_progress) options_.on_progress(progress_);
}

void Quantisation::make_tensor(const TensorPlan& tensor, const OutputFolder& folder,
                               weights::SafetensorsWriter& writer) {
  if (is_calibrated(tensor)) {
    for (const weights::PlannedTensor& part : tensor.parts) {
      layers_->copy(folder, part.name, writer);
    }
    return;
  }
  if (!tensor.matrix) return writer.copy(source_, tensor.name);
  std::vector<Bytes> parts;
  try {
    parts = format_->encode(pool_, source_.read(tensor.name, tensor.matrix->shape));
  } catch (const Error& error) {
    throw Error(error.code(), source_.where(tensor.name) + ": " + error.what());
  }
  source_.release(tensor.name);
  for (std::size_t i = 0; i < parts.size(); ++i) writer.write(tensor.parts[i].name, parts[i]);
}

// Returns false when the call is stopped.
bool Quantisation::make_shard(const ShardPlan& shard, OutputFolder& folder) {
  weights::SafetensorsWriter writer(folder.path() / shard.file, shard.parts());
  for (const TensorPlan& tensor : shard.tensors) {
    if (is_stopped()) return false;
    make_tensor(tensor, folder, writer);
    progress_.tensors_done += 1;
    progress_.bytes_done += tensor.source_bytes;
    report();
  }
  if (const auto changed = source_.find_changed_file()) {
    throw Error(ErrorCode::kBadModel, *changed);
  }
  writer.finish();
  folder.add_shard(shard.file);
  return true;
}

// Returns false when the call is stopped.
bool Quantisation::make_layers(OutputFolder& folder) {
  return layers_->make(folder, [&](const LayersProgress& layers) {
    progress_.layers_done = layers.layers_done;
    progress_.layer_part = layers.layer_part;
    progress_.work_done = layers.work_done;
    progress_.work_total = layers.work_total;
    progress_.work_us = layers.work_us;
    progress_.layers_us = watch_.elapsed_us();
    report();
  });
}

void Quantisation::write_others(const OutputFolder& folder, QuantiseOutcome& outcome) const {
  if (plan_.shards.size() > 1) folder.write(kIndex, index_json(plan_));
  const auto add = [&](const std::string& name, const std::string& text) {
    const fs::path path = folder.path() / name;
    std::error_code ignored;
    if (!fs::exists(path, ignored)) return folder.write(name, text);
    const std::string found = read_text_file(path, kMaxOtherFileBytes);
    if (found == text) return;
    if (!is_damaged_json(name, found)) return outcome.edited_files.push_back(name);
    outcome.repaired_files.push_back(name);
    folder.write(name, text);
  };
  for (const std::string& name : others_) {
    add(name, read_text_file(options_.model / name, kMaxOtherFileBytes));
  }
  add(kConfig, new_config_);
}

QuantiseOutcome Quantisation::run() {
  OutputFolder folder(options_.output, settings(), output_names());
  QuantiseOutcome outcome{.num_matrices = plan_.num_matrices,
                          .kept = plan_.kept,
                          .source_bytes = plan_.source_bytes,
                          .output_bytes = plan_.output_bytes,
                          .num_shards = std::ssize(plan_.shards)};
  progress_.tensors_total = plan_.num_tensors;
  for (const ShardPlan& shard : plan_.shards) {
    if (folder.has_shard(shard.file, options_.stop)) {
      progress_.tensors_done += std::ssize(shard.tensors);
      ++outcome.shards_found;
      continue;
    }
    missing_.push_back(&shard);
    for (const TensorPlan& tensor : shard.tensors) progress_.bytes_total += tensor.source_bytes;
  }
  require_space(folder);
  watch_ = Stopwatch();
  if (layers_ && !missing_.empty()) {
    progress_.layers_total = layers_->num_layers();
    if (!make_layers(folder)) return outcome;
  }
  for (const ShardPlan* const shard : missing_) {
    if (!make_shard(*shard, folder)) return outcome;
  }
  if (is_stopped()) return outcome;
  write_others(folder, outcome);
  if (layers_) layers_->remove_files(folder);
  outcome.is_complete = true;
  return outcome;
}

// Returns the format; throws as check_options().
const FormatEntry& check(const QuantiseOptions& options) {
  const FormatEntry& entry = require_format(options);
  require_plain_folder(options.model);
  require_other_folder(options.model, options.output);
  return entry;
}

}  // namespace

void check_options(const QuantiseOptions& options) { check(options); }

void check_output(const QuantiseOptions& options) {
  const FormatEntry& entry = check(options);
  QuantiseOptions stoppable = options;
  stoppable.digests.set_cancelled(options.stop);
  Quantisation(stoppable, entry).check();
}

QuantiseOutcome quantise_checkpoint(const QuantiseOptions& options) {
  const FormatEntry& entry = check(options);
  QuantiseOptions stoppable = options;
  stoppable.digests.set_cancelled(options.stop);
  try {
    return Quantisation(stoppable, entry).run();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCancelled) throw;
    return {};  // stopped before a tensor was read
  }
}

}  // namespace caption::quantise
