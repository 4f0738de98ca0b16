#include "config/resolve.h"

#include <algorithm>
#include <limits>

#include "base/json.h"
#include "base/units.h"
#include "config/adapters.h"
#include "config/choices.h"
#include "config/composed_source.h"
#include "config/devices.h"
#include "config/identity.h"
#include "config/option_names.h"
#include "config/preset_blueprint.h"
#include "config/resources.h"
#include "drafts/drafter.h"
#include "kv/page_pool.h"
#include "sampling/sampler.h"
#include "vision/preprocess.h"

namespace caption::config {
namespace {

std::int32_t to_int32(std::int64_t value) {
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(
      value, std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()));
}

engine::CompressionOptions compression(const EngineSection& section) {
  engine::CompressionOptions options;
  options.mode = section.attention;
  options.keep_tokens = to_int32(section.attention_keep_tokens);
  options.threshold = static_cast<float>(section.attention_threshold);
  return options;
}

std::string join_with_and(const std::vector<std::string>& parts) {
  std::string out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += i + 1 == parts.size() ? " and " : ", ";
    out += parts[i];
  }
  return out;
}

// Names a remedy for missing features. The preset cpu runs in every build, so there a flag is the
// cause.
std::string way_out(const Preset& preset) {
  if (!preset.device.given_by.empty()) return std::string(kCpuRunsHere);
  return preset.name != "cpu" ? "--preset cpu runs here" : "leave it out";
}

}  // namespace

weights::WeightFormat weight_format(const QuantizationSection& quantization) {
  const bool is_double = quantization.weights == WeightFormat::kNf4 && quantization.double_quant;
  return is_double ? weights::WeightFormat::kNf4Double : named_format(quantization.weights);
}

KvFormat kv_format(const QuantizationSection& quantization) {
  if (quantization.kv_cache != KvFormat::kAuto) return quantization.kv_cache;
  return quantization.weights == WeightFormat::kF32 ? KvFormat::kF32 : KvFormat::kBF16;
}

DType kv_dtype(const QuantizationSection& quantization) {
  switch (kv_format(quantization)) {
    case KvFormat::kF32: return DType::kF32;
    case KvFormat::kF16: return DType::kF16;
    case KvFormat::kInt8: return DType::kI8;
    case KvFormat::kBF16:
    case KvFormat::kAuto: break;
  }
  return DType::kBF16;
}

std::int32_t max_drafts(const Preset& preset) {
  if (preset.speculative.method == DraftMethod::kNone) return 0;
  return to_int32(preset.speculative.num_draft_tokens);
}

std::int64_t max_copied_tokens(const Preset& preset, std::int64_t vocab) {
  return drafts::most_copied_tokens(preset.speculative.method, preset.generation.max_new_tokens,
                                    vocab);
}

std::vector<std::string> missing_features(const Preset& preset, bool has_cuda_kernels) {
  std::vector<std::string> missing;
  if (preset.device.type == DeviceType::kCuda && !has_cuda_kernels) {
    missing.emplace_back("CUDA kernels");
  }
  if (preset.device.type == DeviceType::kCuda &&
      preset.engine.attention != CompressionMode::kNone) {
    missing.push_back("compressed attention on CUDA (engine.attention: " +
                      std::string(choice_name(preset.engine.attention)) + ")");
  }
  const WeightFormat weights = preset.quantization.weights;
  if (!runs_here(weights)) missing.push_back(std::string(choice_name(weights)) + " weights");
  return missing;
}

void require_available(const Preset& preset, bool has_cuda_kernels) {
  const std::vector<std::string> missing = missing_features(preset, has_cuda_kernels);
  if (missing.empty()) return;
  const WeightFormat weights = preset.quantization.weights;
  if (missing.size() == 1 && !runs_here(weights)) {
    throw Error(ErrorCode::kUnavailable,
                "--dtype (quantization.weights of a preset): this build holds no weights as " +
                    std::string(choice_name(weights)) + "; it has " + choice_names<WeightFormat>());
  }
  throw Error(ErrorCode::kUnavailable,
              device_choice(preset) +
                  (preset.device.given_by.empty() ? ": what is asked for needs " : " needs ") +
                  join_with_and(missing) + ", which this build does not have; " + way_out(preset));
}

void require_products(const Context& context, const QuantizationSection& quantization) {
  const auto obstacle = weights::find_obstacle(context, weight_format(quantization));
  if (obstacle.has_value()) throw Error(ErrorCode::kUnavailable, *obstacle);
}

weights::WeightFormat format_without_fp8(const model::Blueprint& blueprint) {
  constexpr weights::WeightFormat kIntegers = weights::WeightFormat::kW8A8;
  const bool keeps_all = std::all_of(
      blueprint.parameters.begin(), blueprint.parameters.end(), [](const model::Parameter& one) {
        return !one.codes.has_value() || weights::keeps_codes(kIntegers, *one.codes);
      });
  return keeps_all ? kIntegers : weights::WeightFormat::kBF16;
}

void require_products(const Context& context, const Preset& preset, const Locations& locations) {
  const weights::WeightFormat format = weight_format(preset.quantization);
  if (!weights::find_obstacle(context, format).has_value()) return;
  model::Blueprint blueprint;
  try {
    blueprint = find_preset_blueprint(preset.model, locations).blueprint;
  } catch (const Error& error) {
    if (is_of_machine(error.code())) throw;
    // The codes of a model that cannot be read are not known.
  }
  throw Error(ErrorCode::kUnavailable,
              *weights::find_obstacle(context, format, format_without_fp8(blueprint)));
}

namespace {

std::string drafts_text(const Preset& preset) {
  return option_text(preset, "speculative.method", choice_name(preset.speculative.method));
}

[[noreturn]] void refuse_draft_model(const Preset& preset) {
  throw Error(ErrorCode::kUsage,
              option_text(preset, "speculative.draft_model", preset.speculative.draft_model) +
                  " would not be used with " + drafts_text(preset) +
                  "; --drafts model guesses with it");
}

void require_self_drafts(const Preset& preset) {
  if (!preset.speculative.draft_model.empty()) refuse_draft_model(preset);
  if (preset.engine.attention == CompressionMode::kNone) return;
  throw Error(ErrorCode::kUsage,
              drafts_text(preset) + " and " +
                  option_text(preset, "engine.attention", choice_name(preset.engine.attention)) +
                  " exclude each other: self-drafts read the keys and values of whole prompts");
}

void require_beams(const Preset& preset) {
  const GenerationSection& generation = preset.generation;
  const auto refuse = [&](std::string_view key, const char* reason) {
    throw Error(ErrorCode::kUsage, option_name(preset, key) + " and " +
                                       option_name(preset, "generation.num_beams") +
                                       " exclude each other: " + reason);
  };
  if (!generation.stop.empty()) refuse("generation.stop", "beams end at stop ids alone");
  if (generation.temperature != 0) {
    refuse("generation.temperature", "a beam search does not sample");
  }
  if (generation.num_logprobs >= 0) {
    refuse("generation.num_logprobs", "a beam search gives no log-probabilities per token");
  }
}

void require_places_of_beams(const Preset& preset) {
  const std::int64_t num_beams = preset.generation.num_beams;
  const std::int64_t places =
      std::min(preset.engine.max_num_seqs, preset.engine.max_num_batched_tokens);
  if (num_beams <= places) return;
  throw Error(ErrorCode::kUsage,
              option_text(preset, "generation.num_beams", std::to_string(num_beams)) +
                  ": beams run together, and " + option_name(preset, "engine.max_num_seqs") +
                  " and " + option_name(preset, "engine.max_num_batched_tokens") + " allow " +
                  std::to_string(places));
}

}  // namespace

void require_consistent(const Preset& preset) {
  require_device_list(preset);
  const WeightFormat weights = preset.quantization.weights;
  if (preset.quantization.double_quant && weights != WeightFormat::kNf4 &&
      weights != WeightFormat::kAuto) {
    throw Error(ErrorCode::kUsage, option_name(preset, "quantization.double_quant") +
                                       " is for weights of nf4, and these are " +
                                       std::string(choice_name(weights)) + "; leave it out");
  }
  // What a model's files say may yet take the place of a value that is not given.
  if (preset.given.contains("generation.min_new_tokens") &&
      preset.given.contains("generation.max_new_tokens")) {
    require_token_range(preset);
  }
  require_places_of_beams(preset);
  if (preset.generation.num_beams > 1) require_beams(preset);
  const DraftMethod method = preset.speculative.method;
  const bool has_model = !preset.speculative.draft_model.empty();
  if (method == DraftMethod::kModel && !has_model) {
    throw Error(ErrorCode::kUsage,
                drafts_text(preset) + " needs a draft model; --draft-model names one");
  }
  if (has_model && method == DraftMethod::kNone) refuse_draft_model(preset);
  if (method == DraftMethod::kSelf) require_self_drafts(preset);
  if (!preset.engine.kv_cache_dir.empty() && !preset.engine.prefix_cache) {
    throw Error(ErrorCode::kUsage,
                option_name(preset, "engine.kv_cache_dir") + " needs --prefix-cache true" +
                    (preset.origins.contains("engine.prefix_cache")
                         ? ", and it is off: " + option_text(preset, "engine.prefix_cache", "false")
                         : ""));
  }
}

namespace {

std::unique_ptr<model::CaptionModel> open_with_own_limits(const Context& context,
                                                          const Preset& preset,
                                                          const Locations& locations,
                                                          const OpenChoices& choices) {
  const DigestCache digests(locations.digests, choices.digests == KeepDigests::kYes
                                                   ? DigestCache::Keeping::kYes
                                                   : DigestCache::Keeping::kNo);
  const model::OpenOptions options{.digests = digests,
                                   .adapters = adapter_sources(preset.model.adapter, locations),
                                   .opening = choices.opening,
                                   .requantises = preset.quantization.requantize,
                                   .cancelled = choices.cancelled};
  if (!preset.model.is_composed) {
    return model::open_model(context, find_model(preset.model.path, locations),
                             weight_format(preset.quantization), options);
  }
  const ModelSection& parts = preset.model;
  model::ComposedSource source = composed_source(parts, locations.preset_folder);
  source.vision = find_model(parts.vision, locations);
  source.llm = find_model(parts.llm, locations);
  return model::open_composed(context, source, weight_format(preset.quantization), options);
}

}  // namespace

void apply_max_pixels(const VideoSection& video, model::Blueprint& blueprint) {
  if (video.max_pixels == 0 || !blueprint.vision.has_value()) return;
  vision::set_max_pixels(blueprint.vision->resize, video.max_pixels);
}

std::unique_ptr<model::CaptionModel> open_model(const Context& context, const Preset& preset,
                                                const Locations& locations,
                                                const OpenChoices& choices) {
  require_products(context, preset, locations);
  if (preset.video.max_pixels == 0) {
    return open_with_own_limits(context, preset, locations, choices);
  }
  // Refuses a limit that the model does not have before the weights are read.
  model::Blueprint blueprint = find_preset_blueprint(preset.model, locations).blueprint;
  apply_max_pixels(preset.video, blueprint);
  auto model = open_with_own_limits(context, preset, locations, choices);
  model->set_max_pixels(preset.video.max_pixels);
  return model;
}

std::int64_t kv_page_bytes(const Preset& preset, const model::DecoderSpec& spec) {
  return kv::kPageTokens * model::kv_token_bytes(spec, kv_dtype(preset.quantization));
}

std::int64_t guess_page_bytes(const Preset& preset, const model::DecoderSpec& spec) {
  if (preset.speculative.method != DraftMethod::kSelf) return 0;
  return preset.engine.max_num_seqs * kv::pages_for_tokens(max_drafts(preset)) *
         kv_page_bytes(preset, spec);
}

std::int64_t plan_kv_cache_bytes(const Preset& preset, const model::DecoderSpec& spec,
                                 std::int64_t held_bytes, std::int64_t machine_memory_bytes,
                                 std::int64_t draft_page_bytes) {
  if (preset.engine.kv_cache_bytes > 0) return preset.engine.kv_cache_bytes;
  const double need_bytes = static_cast<double>(kv_page_bytes(preset, spec) + draft_page_bytes) *
                            static_cast<double>(kv::pages_for_tokens(spec.max_positions)) *
                            static_cast<double>(preset.engine.max_num_seqs);
  const double allowed_bytes =
      preset.device.memory_utilization * static_cast<double>(machine_memory_bytes) -
      static_cast<double>(held_bytes);
  if (allowed_bytes <= 0) {
    throw Error(ErrorCode::kOutOfMemory,
                "weights and activations of " + format_bytes(held_bytes) +
                    " leave no room for KV pages in memory_utilization " +
                    json_number(preset.device.memory_utilization) + " of " +
                    format_bytes(machine_memory_bytes) +
                    "; use a smaller model or a higher --memory-utilization");
  }
  return static_cast<std::int64_t>(std::min(need_bytes, allowed_bytes));
}

int num_threads(const Preset& preset, const Machine& machine) {
  return preset.device.threads > 0 ? static_cast<int>(preset.device.threads)
                                   : std::max(1, machine.num_cpus);
}

engine::EngineOptions engine_options(const Context& context, const Preset& preset,
                                     std::int64_t kv_cache_bytes, const Sha256& model_hash) {
  return {
      .batching = preset.engine.batching,
      .max_num_seqs = to_int32(preset.engine.max_num_seqs),
      .max_num_batched_tokens = to_int32(preset.engine.max_num_batched_tokens),
      .chunked_prefill = preset.engine.chunked_prefill,
      .kv_cache_bytes = kv_cache_bytes,
      .kv_dtype = kv_dtype(preset.quantization),
      .prefix_cache =
          preset.engine.prefix_cache ? engine::PrefixCache::kOn : engine::PrefixCache::kOff,
      .page_identity = page_identity(context, preset, model_hash),
      .disk = {.folder = preset.engine.kv_cache_dir, .max_bytes = preset.engine.kv_cache_dir_bytes},
      .compression = compression(preset.engine)};
}

sampling::SamplingParams sampling_params(const Preset& preset) {
  const GenerationSection& generation = preset.generation;
  return {.temperature = generation.temperature,
          .top_k = to_int32(generation.top_k),
          .top_p = generation.top_p,
          .repetition_penalty = generation.repetition_penalty,
          .no_repeat_ngram_size = to_int32(generation.no_repeat_ngram_size),
          .min_new_tokens = to_int32(generation.min_new_tokens),
          .max_new_tokens = to_int32(generation.max_new_tokens),
          .stop_ids = {},
          .seed = static_cast<std::uint64_t>(generation.seed),
          .num_beams = to_int32(generation.num_beams),
          .length_penalty = generation.length_penalty,
          .early_stopping = generation.early_stopping,
          .num_logprobs = to_int32(generation.num_logprobs)};
}

void require_valid_sampling(const Preset& preset, model::CaptionModel& model) {
  sampling::SamplingParams params = sampling_params(preset);
  params.stop_ids = model.eos_ids();
  sampling::validate(params, model.decoder().spec().vocab);
}

video::ReadOptions read_options(const Preset& preset) {
  video::ReadOptions options;
  options.sampling =
      video::parse_sampling(preset.video.sampling, static_cast<int>(preset.video.num_frames));
  options.limits.max_pixels = preset.video.max_frame_pixels;
  options.limits.max_decode_us = static_cast<std::int64_t>(preset.video.decode_timeout_s * 1e6);
  options.color_matrix = preset.video.color_matrix;
  return options;
}

}  // namespace caption::config
