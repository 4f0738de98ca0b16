#include "bench_flags.h"

#include <algorithm>

#include "base/ascii.h"
#include "base/join.h"
#include "bench/cuda_prediction.h"
#include "config/choices.h"
#include "draft_prices.h"
#include "option_prices.h"
#include "option_types.h"
#include "plan/known_models.h"
#include "plan/kv_dtype_name.h"

namespace caption::cli {
namespace {

constexpr const char* kGroup = "Workload";

// Returns a check for the names of known models, in any spelling that find_known_model() accepts.
CLI::Validator is_known_shape() {
  return {[](std::string& name) {
            return plan::find_known_model(name).has_value()
                       ? std::string()
                       : not_one_of(plan::known_model_names(), name);
          },
          ""};
}

template <class Values, class Name>
std::string names_of(const Values& values, Name name) {
  std::vector<std::string> names;
  for (const auto value : values) names.emplace_back(name(value));
  return join(names);
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
  count("--prompts-per-clip", flags.prompts_per_clip, "prefix: prompts on each clip", "3");
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
      ->transform([](const std::string& name) { return to_lower_ascii(name); })
      ->group(kGroup);
}

void add_series_flags(CLI::App& command, BenchFlags& flags) {
  command.add_option("--sweep", flags.sweep, "batch sizes (--max-num-seqs) to go through")
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
                  "turns. Three with --tower and --loading where this option is not given.")
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
      command, "--price", flags.price, {kPriceChoices.begin(), kPriceChoices.end()},
      "memory, speed and scores of each choice\n"
      "attention: " +
          config::choice_names<config::CompressionMode>() + ". kv: pages of " +
          names_of(kPricedPages, plan::kv_dtype_name) + ". drafts: --drafts " +
          names_of(kPricedMethods, config::choice_name<config::DraftMethod>) +
          ", and model if --drafts model asks for it; with --shape and no videos, guesses that are "
          "right "
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
      ->type_name(kModelType)
      ->group(kVideoGroup);
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

bool is_given(const BenchFlags& flags, std::string_view option) {
  return std::find(flags.workload_options.begin(), flags.workload_options.end(), option) !=
         flags.workload_options.end();
}

int num_passes(const BenchFlags& flags) {
  constexpr int kPasses = 3;
  return is_given(flags, "--repeat") ? flags.repeat : kPasses;
}

}  // namespace caption::cli
