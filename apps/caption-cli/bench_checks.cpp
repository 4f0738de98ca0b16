#include "bench_checks.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "planned_run.h"
#include "write_text.h"

namespace caption::cli {
namespace {

constexpr std::size_t kNumMeasured = static_cast<std::size_t>(Measured::kPlantedDrafts) + 1;

// A set of measurements.
class MeasuredSet {
 public:
  constexpr MeasuredSet(std::initializer_list<Measured> members) {
    for (const Measured one : members) is_member_[static_cast<std::size_t>(one)] = true;
  }
  constexpr bool has(Measured one) const { return is_member_[static_cast<std::size_t>(one)]; }
  constexpr MeasuredSet with(MeasuredSet others) const {
    MeasuredSet both = *this;
    for (std::size_t i = 0; i < kNumMeasured; ++i) both.is_member_[i] |= others.is_member_[i];
    return both;
  }

 private:
  std::array<bool, kNumMeasured> is_member_ = {};
};

using enum Measured;
constexpr MeasuredSet kSynthetic = {kFixed, kMixed, kPrefix, kStatic};
constexpr MeasuredSet kAnyKernels = {kKernels, kTowerKernels};
// Those that run no engine, and those that caption nothing.
constexpr MeasuredSet kWithoutEngine = kAnyKernels.with({kTower, kLoading, kPrediction});
constexpr MeasuredSet kWithoutCaptions = kSynthetic.with(kWithoutEngine);

// An option that only some measurements have.
struct WorkloadOption {
  const char* name;
  MeasuredSet measured;
  const char* purpose;
};
constexpr std::array kWorkloadOptions = {
    WorkloadOption{"--workload", kSynthetic, "synthetic workloads"},
    WorkloadOption{"--requests",
                   {kFixed, kMixed, kStatic},
                   "the workloads fixed, mixed and static-vs-continuous"},
    WorkloadOption{"--prompt-tokens",
                   {kFixed, kPrefix, kStatic, kKernels, kPlantedDrafts},
                   "the workloads fixed, prefix and static-vs-continuous, --kernels and --price"},
    WorkloadOption{"--output-tokens",
                   {kFixed, kPrefix, kPlantedDrafts},
                   "the workloads fixed and prefix, and --price"},
    WorkloadOption{"--vision-tokens", {kPrefix}, "the workload prefix"},
    WorkloadOption{"--clips", {kPrefix}, "the workload prefix"},
    WorkloadOption{"--prompts-per-clip", {kPrefix}, "the workload prefix"},
    WorkloadOption{
        "--length-scale", {kMixed, kStatic}, "the workloads mixed and static-vs-continuous"},
    WorkloadOption{"--sweep", kSynthetic.with({kKernels, kPlantedDrafts}),
                   "synthetic workloads, --kernels and --price"},
    WorkloadOption{"--profile", kSynthetic, "synthetic workloads"},
    WorkloadOption{"--repeat", kSynthetic.with({kVideos, kTower, kLoading, kPlantedDrafts}),
                   "workloads, videos, towers, --loading and --price"},
};

constexpr std::int64_t kLeastDraftedTokens = 4;  // bench_drafts() needs as many

// The name of a measurement, as the end of a sentence.
const char* name_of(Measured measured, const BenchFlags& flags) {
  switch (measured) {
    case kFixed: return "the workload fixed";
    case kMixed: return "the workload mixed";
    case kPrefix: return "the workload prefix";
    case kStatic: return "the workload static-vs-continuous";
    case kVideos: return "videos";
    case kKernels: return "--kernels";
    case kTowerKernels: return "--kernels of a shape without a decoder";
    case kTower: return flags.tower ? "--tower" : "a shape without a decoder";
    case kLoading: return "--loading";
    case kPrediction: return "--predict";
    case kPlantedDrafts: return "--price drafts of a shape";
  }
  return "?";
}

// An option of the preset that is refused where a measurement would pass over it.
struct PresetOption {
  const char* key;
  MeasuredSet without;  // the measurements that would
  const char* why;
};
constexpr std::array kPresetOptions = {
    PresetOption{"speculative.draft_from", {kPlantedDrafts}, "its guesses are planted"},
    PresetOption{"speculative.method", kWithoutCaptions, "--price drafts measures drafts"},
    PresetOption{"speculative.draft_model", kWithoutCaptions, "--price drafts measures drafts"},
    PresetOption{"generation.num_beams", {kPlantedDrafts}, "beams have no drafts"},
    PresetOption{"engine.max_num_seqs", {kPlantedDrafts}, "--sweep names its numbers of sequences"},
    PresetOption{"video.num_frames", {kTower}, "it takes two frames at a time, 64 on a GPU"},
};

// Options of the preset that some measurements pass over without harm.
struct PassedOver {
  std::string_view begin;  // the beginning of the option's key
  MeasuredSet measured;
};
constexpr std::array kPassedOver = {
    PassedOver{"generation.", kWithoutCaptions.with({kPlantedDrafts})},
    PassedOver{"video.", kWithoutCaptions.with({kPlantedDrafts})},
    PassedOver{"engine.", kWithoutEngine},
    PassedOver{"engine.batching", {kStatic}},      // compared
    PassedOver{"engine.prefix_cache", {kPrefix}},  // compared
    PassedOver{"quantization.kv_cache", {kTower, kLoading, kPrediction}},
};
// Options of the preset about the files of weights, which random weights do not have.
constexpr std::array<std::string_view, 2> kOfFiles = {"model.adapter", "quantization.requantize"};
// --kernels on the CPU measures every format of weights and pages.
constexpr std::array<std::string_view, 2> kFormats = {"quantization.weights",
                                                      "quantization.kv_cache"};
// Random weights and workloads are drawn with it.
constexpr std::string_view kSeed = "generation.seed";

bool is_among(const std::array<std::string_view, 2>& keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

// The options of the preset on the command line, with --quality and --speed as one of the values
// that they stand for.
std::vector<config::Override> given_options(const PresetFlags& flags) {
  std::vector<config::Override> given = flags.overrides;
  if (!flags.examples_file.empty()) {
    given.push_back(
        {.key = std::string(config::kExamplesKey), .value = "", .source = "--examples"});
  }
  if (flags.quality) {
    given.push_back({.key = "generation.num_beams", .value = "4", .source = "--quality"});
  }
  if (flags.speed) {
    given.push_back({.key = "generation.temperature", .value = "0.8", .source = "--speed"});
  }
  return given;
}

void require_meaning(const BenchFlags& flags, bool has_decoder) {
  const Measured measured = measured_by(flags, has_decoder);
  const std::string name = name_of(measured, flags);
  if (measured == kPlantedDrafts && is_given(flags, "--output-tokens") &&
      flags.output_tokens < kLeastDraftedTokens) {
    throw Error(ErrorCode::kUsage, "bench: --output-tokens " + std::to_string(flags.output_tokens) +
                                       " leave drafts nothing to guess; give " +
                                       std::to_string(kLeastDraftedTokens) + " or more");
  }
  for (const PresetOption& option : kPresetOptions) {
    if (!option.without.has(measured)) continue;
    for (const config::Override& given : given_options(flags.preset)) {
      if (given.key != option.key || given.value == "none") continue;
      throw Error(ErrorCode::kUsage,
                  "bench: " + given.source + " has no effect on " + name + ": " + option.why);
    }
  }
  for (const WorkloadOption& option : kWorkloadOptions) {
    if (!is_given(flags, option.name) || option.measured.has(measured)) continue;
    throw Error(ErrorCode::kUsage, std::string("bench: ") + option.name + " is for " +
                                       option.purpose + ", not for " + name);
  }
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

// Throws Error(kUsage), naming the option, where one that is for captions of videos is given and
// there are none.
void require_no_captions(const BenchFlags& flags, bool is_planted) {
  if (flags.price != PriceOf::kNothing && !is_planted) {
    const auto* const choice =
        std::find_if(kPriceChoices.begin(), kPriceChoices.end(),
                     [&](const auto& one) { return one.second == flags.price; });
    throw Error(ErrorCode::kUsage,
                std::string("bench: --price ") + choice->first + " needs videos to caption" +
                    (flags.price == PriceOf::kDrafts ? ", or a --shape that has a decoder" : ""));
  }
  if (!flags.references.empty()) {
    throw Error(ErrorCode::kUsage, "bench: --references needs videos to caption");
  }
}

// Throws Error(kUsage) where what is measured is named in two ways, or not at all.
void require_one_measurement(const BenchFlags& flags) {
  const bool has_videos = !flags.videos.empty();
  if (has_videos && (flags.kernels || !flags.shape.empty())) {
    throw Error(
        ErrorCode::kUsage,
        std::string("bench: ") + (flags.kernels ? "--kernels" : "--shape") + " measures no videos");
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
}

// Throws Error(kUsage) for a number of sequences that --sweep names twice.
void require_distinct_sizes(const BenchFlags& flags) {
  std::vector<std::int32_t> sizes = flags.sweep;
  std::sort(sizes.begin(), sizes.end());
  const auto twice = std::adjacent_find(sizes.begin(), sizes.end());
  if (twice == sizes.end()) return;
  throw Error(ErrorCode::kUsage, "bench: --sweep names " + std::to_string(*twice) +
                                     " twice; --repeat measures each size several times");
}

// Throws Error for reports that exclude each other or would overwrite other files.
void require_reports(const BenchFlags& flags, bool has_decoder) {
  constexpr MeasuredSet kWithSubject = kAnyKernels.with({kTower, kLoading});
  const Measured measured = measured_by(flags, has_decoder);
  std::vector<std::string> inputs = flags.videos;
  inputs.push_back(flags.references);
  require_replaceable(flags.json, kWithSubject.has(measured) ? kKernelsBegin : kBenchBegin, inputs);
  require_replaceable(flags.svg, kSvgBegin, inputs);
  require_two_files("--json", flags.json, "--svg", flags.svg);
}

// Why what is measured passes over an option of the preset, as the end of a sentence; nullopt for
// an option with an effect.
std::optional<std::string> why_passed_over(const BenchFlags& flags, Device where, bool has_decoder,
                                           std::string_view key) {
  if (key == kSeed) return std::nullopt;
  const Measured measured = measured_by(flags, has_decoder);
  for (const PassedOver& rule : kPassedOver) {
    if (rule.measured.has(measured) && key.starts_with(rule.begin)) {
      return std::string("on ") + name_of(measured, flags);
    }
  }
  if (key == "engine.max_num_seqs" && !flags.sweep.empty()) {
    return "beside --sweep, which names batch sizes";
  }
  const bool is_random = !flags.shape.empty() || kAnyKernels.has(measured);
  if (is_random && is_among(kOfFiles, key)) return "on random weights";
  if (kAnyKernels.has(measured) && !where.is_cuda() && is_among(kFormats, key)) {
    return "on --kernels, which measures every format";
  }
  return std::nullopt;
}

// Warns of --drafts beside --price drafts of videos, which measures every method, whatever that
// says; "model" asks for one more of them.
void warn_of_priced(const BenchFlags& flags) {
  if (flags.price != PriceOf::kDrafts) return;
  for (const config::Override& given : flags.preset.overrides) {
    if (given.key != "speculative.method" || given.value == "model") continue;
    log_warning("bench", given.source + " " + given.value +
                             " has no effect: --price drafts measures every method in turn; "
                             "leave --drafts out, or give --drafts model to measure a draft model "
                             "too");
  }
}

}  // namespace

Measured measured_by(const BenchFlags& flags, bool has_decoder) {
  if (!flags.videos.empty()) return kVideos;
  if (flags.loading) return kLoading;
  if (!flags.predict.empty()) return kPrediction;
  if (flags.kernels) return has_decoder ? kKernels : kTowerKernels;
  if (flags.tower || !has_decoder) return kTower;
  if (flags.price == PriceOf::kDrafts) return kPlantedDrafts;
  switch (flags.workload) {
    case WorkloadKind::kMixed: return kMixed;
    case WorkloadKind::kPrefix: return kPrefix;
    case WorkloadKind::kStaticVsContinuous: return kStatic;
    case WorkloadKind::kFixed: break;
  }
  return kFixed;
}

std::vector<std::string> given_workload_options(const CLI::App& command) {
  std::vector<std::string> given;
  for (const WorkloadOption& option : kWorkloadOptions) {
    if (command.count(option.name) > 0) given.emplace_back(option.name);
  }
  return given;
}

void warn_of_idle(const BenchFlags& flags, const config::LoadedPreset& loaded, Device where,
                  bool has_decoder) {
  if (!flags.videos.empty()) {
    warn_of_priced(flags);
    config::LoadedPreset adopted = loaded;
    adopt_generation_defaults(adopted);
    return warn_of_unused("bench", adopted, flags.preset.overrides, {.device = where});
  }
  for (const config::Override& given : given_options(flags.preset)) {
    const auto why = why_passed_over(flags, where, has_decoder, given.key);
    if (why.has_value()) log_warning("bench", given.source + " has no effect " + *why);
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
  require_one_measurement(flags);
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
  require_distinct_sizes(flags);
  require_reports(flags, has_decoder);
  const bool has_videos = !flags.videos.empty();
  const bool is_planted = flags.price == PriceOf::kDrafts && !flags.shape.empty() && has_decoder &&
                          !flags.kernels && !flags.tower;
  if (!has_videos && !flags.shape.empty()) require_planted_alone(flags, is_planted);
  if (!has_videos) require_no_captions(flags, is_planted);
  if (flags.price != PriceOf::kWeights &&
      (flags.price_positions != 0 || !flags.price_base.empty())) {
    throw Error(ErrorCode::kUsage,
                std::string("bench: ") +
                    (flags.price_positions != 0 ? "--price-positions" : "--price-base") +
                    " is for --price weights");
  }
  if (!flags.svg.empty() && (flags.sweep.size() < 2 || flags.kernels || is_planted)) {
    throw Error(
        ErrorCode::kUsage,
        "bench: --svg draws throughput over batch size; give --sweep with two sizes or more, and "
        "no --kernels or --price");
  }
}

}  // namespace caption::cli
