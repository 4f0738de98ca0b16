#include "bench_flags.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/join.h"
#include "base/log.h"
#include "bench/cuda_prediction.h"
#include "option_types.h"
#include "plan/known_models.h"
#include "planned_run.h"
#include "write_text.h"

namespace caption::cli {
namespace {

constexpr const char* kGroup = "Workload";

// What bench measures, as bits.
enum Measured : unsigned {
  kFixed = 1,
  kMixed = 2,
  kPrefix = 4,
  kStatic = 8,
  kSynthetic = kFixed | kMixed | kPrefix | kStatic,
  kVideos = 16,
  kKernels = 32,
  kTower = 64,
  kLoading = 128,
  kPrediction = 256,
  kPlantedDrafts = 512,
};

// What the options that only some measurements have are for.
struct WorkloadOption {
  const char* name;
  unsigned measured;
  const char* purpose;
};
constexpr std::array kWorkloadOptions = {
    WorkloadOption{"--workload", kSynthetic, "synthetic workloads"},
    WorkloadOption{"--requests", kFixed | kMixed | kStatic,
                   "the workloads fixed, mixed and static-vs-continuous"},
    WorkloadOption{"--prompt-tokens", kFixed | kPrefix | kStatic | kKernels | kPlantedDrafts,
                   "the workloads fixed, prefix and static-vs-continuous, --kernels and --price"},
    WorkloadOption{"--output-tokens", kFixed | kPrefix | kPlantedDrafts,
                   "the workloads fixed and prefix, and --price"},
    WorkloadOption{"--vision-tokens", kPrefix, "the workload prefix"},
    WorkloadOption{"--clips", kPrefix, "the workload prefix"},
    WorkloadOption{"--prompts", kPrefix, "the workload prefix"},
    WorkloadOption{"--length-scale", kMixed | kStatic,
                   "the workloads mixed and static-vs-continuous"},
    WorkloadOption{"--sweep", kSynthetic | kKernels | kPlantedDrafts,
                   "synthetic workloads, --kernels and --price"},
    WorkloadOption{"--profile", kSynthetic, "synthetic workloads"},
    WorkloadOption{"--repeat", kSynthetic | kVideos | kTower | kLoading | kPlantedDrafts,
                   "workloads, videos, towers, --loading and --price"},
};

constexpr std::int64_t kLeastDraftedTokens = 4;  // bench_drafts() needs as many

// What is measured, and its name.
std::pair<Measured, const char*> measured_by(const BenchFlags& flags, bool has_decoder) {
  if (!flags.videos.empty()) return {kVideos, "videos"};
  if (flags.loading) return {kLoading, "--loading"};
  if (!flags.predict.empty()) return {kPrediction, "--predict"};
  if (flags.kernels) return {kKernels, "--kernels"};
  if (flags.tower) return {kTower, "--tower"};
  if (!has_decoder) return {kTower, "a shape without a decoder"};
  if (flags.price == PriceOf::kDrafts) return {kPlantedDrafts, "--price drafts of a shape"};
  switch (flags.workload) {
    case WorkloadKind::kMixed: return {kMixed, "the workload mixed"};
    case WorkloadKind::kPrefix: return {kPrefix, "the workload prefix"};
    case WorkloadKind::kStaticVsContinuous: return {kStatic, "the workload static-vs-continuous"};
    case WorkloadKind::kFixed: break;
  }
  return {kFixed, "the workload fixed"};
}

// Options of the preset that some measurements would pass over.
struct PresetOption {
  const char* key;
  unsigned without;  // the measurements
  const char* why;
};
constexpr std::array kPresetOptions = {
    PresetOption{"speculative.draft_from", kPlantedDrafts, "its guesses are planted"},
    PresetOption{"speculative.method", kSynthetic | kKernels | kTower | kLoading | kPrediction,
                 "--price drafts measures drafts"},
    PresetOption{"speculative.draft_model", kSynthetic | kKernels | kTower | kLoading | kPrediction,
                 "--price drafts measures drafts"},
    PresetOption{"generation.num_beams", kPlantedDrafts, "beams have no drafts"},
    PresetOption{"engine.max_num_seqs", kPlantedDrafts, "--sweep names its numbers of sequences"},
    PresetOption{"video.num_frames", kTower, "it takes two frames at a time, 64 on a GPU"},
};

// Options of the preset that some measurements pass over without harm.
struct PassedOver {
  std::string_view begin;  // the beginning of the option's key
  unsigned measured;
};
constexpr std::array kPassedOver = {
    PassedOver{"generation.",
               kSynthetic | kKernels | kTower | kLoading | kPrediction | kPlantedDrafts},
    PassedOver{"video.", kSynthetic | kKernels | kTower | kLoading | kPrediction | kPlantedDrafts},
    PassedOver{"engine.", kKernels | kTower | kLoading | kPrediction},
    PassedOver{"engine.batching", kStatic},      // compared
    PassedOver{"engine.prefix_cache", kPrefix},  // compared
    PassedOver{"quantization.kv_cache", kTower | kLoading | kPrediction},
};
// Random weights and workloads are drawn with it.
constexpr std::string_view kSeed = "generation.seed";

void require_meaning(const BenchFlags& flags, bool has_decoder) {
  const auto [measured, name] = measured_by(flags, has_decoder);
  if (measured == kPlantedDrafts && is_given(flags, "--output-tokens") &&
      flags.output_tokens < kLeastDraftedTokens) {
    throw Error(ErrorCode::kUsage, "bench: --output-tokens " + std::to_string(flags.output_tokens) +
                                       " leave drafts nothing to guess; give " +
                                       std::to_string(kLeastDraftedTokens) + " or more");
  }
  for (const PresetOption& option : kPresetOptions) {
    if ((option.without & measured) == 0) continue;
    for (const config::Override& given : flags.preset.overrides) {
      if (given.key != option.key || given.value == "none") continue;
      throw Error(ErrorCode::kUsage,
                  "bench: " + given.source + " has no effect on " + name + ": " + option.why);
    }
  }
  for (const WorkloadOption& option : kWorkloadOptions) {
    if (!is_given(flags, option.name) || (option.measured & measured) != 0) continue;
    throw Error(ErrorCode::kUsage, std::string("bench: ") + option.name + " is for " +
                                       option.purpose + ", not for " + name);
  }
}

// Returns a check for the names of known models, in any spelling that find_known_model() accepts.
CLI::Validator is_known_shape() {
  return {[](std::string& name) {
            return plan::find_known_model(name).has_value()
                       ? std::string()
                       : not_one_of(plan::known_model_names(), name);
          },
          ""};
}

std::vector<std::string> predicted_cards() {
  std::vector<std::string> names;
  for (const bench::CudaCard& card : bench::cuda_cards()) names.emplace_back(card.name);
  return names;
}

void add_length_flags(CLI::App& command, BenchFlags& flags) {
  const CLI::Validator counts = in_range(std::int64_t{1}, std::int64_t{1} << 20);
  const auto count = [&](const char* name, std::int64_t& value, const char* help,
                         const std::string& without) {
    command.add_option(name, value, help)
        ->check(counts)
        ->type_name(kNumberType)
        ->default_str(without)
        ->group(kGroup);
  };
  count("--requests", flags.num_requests, "requests", "three batches");
  count("--prompt-tokens", flags.prompt_tokens, "tokens of text in a prompt", "64");
  count("--output-tokens", flags.output_tokens, "fixed, prefix: tokens of an output", "64");
  count("--vision-tokens", flags.vision_tokens, "prefix: tokens of a clip", "256");
  count("--clips", flags.num_clips, "prefix: clips", "8");
  count("--prompts", flags.prompts_per_clip, "prefix: prompts on each clip", "3");
  command
      .add_option("--length-scale", flags.length_scale,
                  "static-vs-continuous, mixed: times all lengths")
      ->check(in_range(1e-3, 100.0))
      ->type_name(kNumberType)
      ->default_str("1")
      ->group(kGroup);
}

void add_predict_flag(CLI::App& command, BenchFlags& flags) {
  limit_to(command.add_option(
               "--predict", flags.predict,
               "with --kernels and --shape: predict the steps of a card\n"
               "Needs no GPU and measures nothing: time, limit and its share for each operation "
               "of prefill and decoding, with weights of --dtype; of a shape without a decoder, "
               "of 64 frames."),
           predicted_cards())
      ->group(kGroup);
}

void add_series_flags(CLI::App& command, BenchFlags& flags) {
  command.add_option("--sweep", flags.sweep, "batch sizes (max_num_seqs) to go through: 1,2,4,8")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(in_range(1, 4096))
      ->type_name("N,...")
      ->group(kGroup);
  command
      .add_option("--repeat", flags.repeat,
                  "runs of each; the median counts\n"
                  "Interleaved, except with --price weights, which holds one model at a time. With "
                  "--price drafts of videos or of a model, 8 rounds each in which the methods take "
                  "turns.")
      ->check(in_range(1, 1000))
      ->type_name(kNumberType)
      ->default_str("1")
      ->group(kGroup);
}

void add_workload_flags(CLI::App& command, BenchFlags& flags) {
  add_choice<WorkloadKind>(
      command, "--workload", flags.workload,
      {{"fixed", WorkloadKind::kFixed},
       {"mixed", WorkloadKind::kMixed},
       {"prefix", WorkloadKind::kPrefix},
       {"static-vs-continuous", WorkloadKind::kStaticVsContinuous}},
      "what is generated\n"
      "static-vs-continuous: outputs of 500, 20 and 200 tokens in turn. mixed: "
      "lengths drawn at random. prefix: clips with several prompts, with and "
      "without the prefix cache. fixed: equal requests.")
      ->default_str("fixed")
      ->group(kGroup);
  command
      .add_option("--shape", flags.shape,
                  "random weights of a known shape\n"
                  "In place of the preset's model. A shape without a decoder (clip-l-336) is "
                  "measured by frames through its tower.")
      ->check(is_known_shape())
      ->type_name(join(plan::known_model_names(), "|"))
      ->group(kGroup);
  command
      .add_flag("--kernels", flags.kernels,
                "each operation by itself\n"
                "Bytes, FLOP, time, and the share of the machine's rates. On a GPU, prefill and "
                "decoding steps of the decoder with random weights, each operation beside its "
                "prediction. --prompt-tokens and --sweep replace the lengths of contexts and the "
                "sequences of a decoding step.")
      ->group(kGroup);
  add_predict_flag(command, flags);
  command
      .add_flag("--tower", flags.tower,
                "frames through the vision tower of --shape\n"
                "Two frames of a fixed size at a time, 64 on a GPU; of any size, eight of 640x352 "
                "pixels, with the mergers.")
      ->group(kGroup);
  command
      .add_flag("--loading", flags.loading,
                "how fast the model is loaded\n"
                "From the page cache and from the disk, beside reading its files.")
      ->group(kGroup);
  command.add_flag("--profile", flags.profile, "also where the time of a step goes, by operation")
      ->group(kGroup);
  add_length_flags(command, flags);
  add_series_flags(command, flags);
}

void add_video_flags(CLI::App& command, BenchFlags& flags) {
  constexpr const char* kVideoGroup = "Real videos";
  command
      .add_option("videos", flags.videos,
                  "clips through the whole pipeline\n"
                  "Videos or folders, in place of a synthetic workload.")
      ->type_name(kPathType)
      ->group(kVideoGroup);
  command.add_option("--references", flags.references, "score the captions, as eval does")
      ->type_name(kPathType)
      ->group(kVideoGroup);
  add_choice<PriceOf>(
      command, "--price", flags.price,
      {{"attention", PriceOf::kAttention},
       {"kv", PriceOf::kKvCache},
       {"drafts", PriceOf::kDrafts},
       {"weights", PriceOf::kWeights}},
      "memory, speed and scores of each choice\n"
      "attention: full, topk-merge, squeezed. kv: pages of bf16, f16, int8, f32. drafts: "
      "--drafts none, ngram, archive, self; with --shape and no videos, guesses that are right "
      "with a planted probability, which --drafts self and --drafts model --draft-model SHAPE, "
      "or SHAPE:LAYERS, compute. "
      "weights: every --dtype, with the divergence of its logits from those of f32; "
      "the figures are kept for this model.")
      ->group(kVideoGroup);
  command
      .add_option("--price-positions", flags.price_positions,
                  "with --price weights: tokens at which logits are compared\n"
                  "At least so many; f32 writes them, and every format is led through the same.")
      ->check(in_range(std::int64_t{1}, std::int64_t{1} << 20))
      ->type_name(kNumberType)
      ->default_str(std::to_string(kDefaultPricePositions))
      ->group(kVideoGroup);
  command
      .add_option("--price-base", flags.price_base,
                  "with --price weights: the model that --model was quantised from\n"
                  "Its f32 weights are then the reference.")
      ->type_name(kFolderType)
      ->group(kVideoGroup);
}

// Throws Error(kUsage) where --price drafts of a shape has another measurement or references beside
// it.
void require_planted_alone(const BenchFlags& flags, bool is_planted) {
  if (flags.price == PriceOf::kDrafts && (flags.kernels || flags.tower)) {
    throw Error(ErrorCode::kUsage, std::string("bench: --price drafts decodes with the whole ") +
                                       "shape, and " + (flags.kernels ? "--kernels" : "--tower") +
                                       " measures parts of it; give one of them");
  }
  if (is_planted && !flags.references.empty()) {
    throw Error(ErrorCode::kUsage,
                "bench: --references score captions of videos, and --price drafts of a shape "
                "decodes random content; name videos instead of --shape, or leave out "
                "--references");
  }
}

}  // namespace

void add_bench_flags(CLI::App& command, BenchFlags& flags) {
  add_video_flags(command, flags);
  add_workload_flags(command, flags);
  command.add_option("--json", flags.json, "every run as JSON to this file, or - for stdout")
      ->type_name(kFileType)
      ->group("Output");
  command.add_option("--svg", flags.svg, "with --sweep: a chart of throughput over batch size")
      ->type_name("FILE.svg")
      ->group("Output");
}

std::vector<std::string> given_workload_options(const CLI::App& command) {
  std::vector<std::string> given;
  for (const WorkloadOption& option : kWorkloadOptions) {
    if (command.count(option.name) > 0) given.emplace_back(option.name);
  }
  return given;
}

bool is_given(const BenchFlags& flags, std::string_view option) {
  return std::find(flags.workload_options.begin(), flags.workload_options.end(), option) !=
         flags.workload_options.end();
}

namespace {

// A line for each option of the preset that what is measured passes over.
std::vector<std::string> describe_passed_over(const BenchFlags& flags, bool has_decoder) {
  const auto [measured, name] = measured_by(flags, has_decoder);
  std::vector<std::string> lines;
  for (const config::Override& given : flags.preset.overrides) {
    const bool is_passed_over =
        given.key != kSeed &&
        std::any_of(kPassedOver.begin(), kPassedOver.end(), [&](const PassedOver& rule) {
          return (rule.measured & measured) != 0 && given.key.starts_with(rule.begin);
        });
    const bool is_swept = given.key == "engine.max_num_seqs" && !flags.sweep.empty();
    if (is_passed_over) {
      lines.push_back(given.source + " has no effect on " + name);
    } else if (is_swept) {
      lines.push_back(given.source + " has no effect beside --sweep, which names batch sizes");
    }
  }
  return lines;
}

}  // namespace

void warn_of_idle(const BenchFlags& flags, const config::LoadedPreset& loaded, Device where,
                  bool has_decoder) {
  if (!flags.videos.empty()) {
    config::LoadedPreset adopted = loaded;
    adopt_generation_defaults(adopted);
    return warn_of_unused("bench", adopted, flags.preset.overrides, {.device = where});
  }
  for (const std::string& line : describe_passed_over(flags, has_decoder)) {
    log_warning("bench", line);
  }
  // The options of the engine depend on each other as in a run.
  const bool has_engine = !flags.kernels && !flags.tower && !flags.loading && has_decoder;
  std::vector<config::Override> of_engine;
  std::copy_if(flags.preset.overrides.begin(), flags.preset.overrides.end(),
               std::back_inserter(of_engine), [](const config::Override& given) {
                 return given.key.starts_with("engine.") && !given.key.ends_with("_dir_bytes");
               });
  if (has_engine) warn_of_unused("bench", loaded, of_engine, {.device = where});
}

void check_flags(const BenchFlags& flags, bool has_decoder) {
  const bool has_videos = !flags.videos.empty();
  if (has_videos && (flags.kernels || !flags.shape.empty())) {
    throw Error(ErrorCode::kUsage, "bench: --kernels and --shape measure no videos");
  }
  if (!flags.predict.empty() && (!flags.kernels || flags.shape.empty())) {
    throw Error(ErrorCode::kUsage, "bench: --predict is for --kernels of a --shape");
  }
  if (!flags.predict.empty() && !flags.json.empty()) {
    throw Error(ErrorCode::kUsage, "bench: --predict writes no JSON");
  }
  if (flags.tower && (flags.shape.empty() || flags.kernels)) {
    throw Error(ErrorCode::kUsage, "bench: --tower measures the tower of a --shape, alone");
  }
  if (flags.loading && (has_videos || !flags.shape.empty() || flags.kernels)) {
    throw Error(ErrorCode::kUsage,
                "bench: --loading measures the files of a --model or preset, alone");
  }
  // A --model that is no folder but a shape is the --shape.
  const std::vector<config::Override>& overrides = flags.preset.overrides;
  const bool has_model =
      std::any_of(overrides.begin(), overrides.end(), [&](const config::Override& given) {
        return given.key == "model.path" && given.value != flags.shape;
      });
  if (!flags.shape.empty() && has_model) {
    throw Error(ErrorCode::kUsage,
                "bench: --model and --shape both name what is measured; give one of them");
  }
  require_meaning(flags, has_decoder);
  std::vector<std::string> inputs = flags.videos;
  inputs.push_back(flags.references);
  require_replaceable(flags.json, flags.kernels || flags.loading ? kKernelsBegin : kBenchBegin,
                      inputs);
  require_replaceable(flags.svg, kSvgBegin, inputs);
  const bool is_planted = flags.price == PriceOf::kDrafts && !flags.shape.empty() && has_decoder &&
                          !flags.kernels && !flags.tower;
  if (!has_videos && !flags.shape.empty()) require_planted_alone(flags, is_planted);
  const bool has_price = flags.price != PriceOf::kNothing && !is_planted;
  if (!has_videos && (!flags.references.empty() || has_price)) {
    throw Error(ErrorCode::kUsage, "--references and --price need videos to caption");
  }
  if (flags.price != PriceOf::kWeights &&
      (flags.price_positions != 0 || !flags.price_base.empty())) {
    throw Error(ErrorCode::kUsage, "--price-positions and --price-base are for --price weights");
  }
  if (!flags.svg.empty() && (flags.sweep.size() < 2 || flags.kernels || is_planted)) {
    throw Error(ErrorCode::kUsage,
                "--svg draws throughput over batch size; give --sweep with two sizes or more, and "
                "no --kernels or --price");
  }
}

}  // namespace caption::cli
