#include "bench_videos.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <set>

#include "backend/stream.h"
#include "backend/thread_pool.h"
#include "base/clock.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "bench/price_report.h"
#include "bench/process_memory.h"
#include "bench/video_report.h"
#include "config/choices.h"
#include "config/examples.h"
#include "config/generation_defaults.h"
#include "config/pipeline_options.h"
#include "config/preset_blueprint.h"
#include "config/resolve.h"
#include "eval/corpus.h"
#include "eval/evaluate.h"
#include "exit_codes.h"
#include "pipeline/find_videos.h"
#include "pipeline/pipeline.h"
#include "price_comparison.h"
#include "records/sink.h"
#include "write_text.h"

namespace caption::cli {
namespace {

class CollectingSink final : public records::RecordSink {
 public:
  records::AppendResult append(const records::Record& record) override {
    records.push_back(record);
    return records::AppendResult::kWritten;
  }

  std::vector<records::Record> records;
};

pipeline::Options make_options(const config::Preset& preset, const Machine& machine,
                               model::CaptionModel& model) {
  pipeline::Options options =
      config::pipeline_options(preset, machine, model, model.content_hash());
  options.engine.disk = {};  // a run must not find pages that another run stored
  options.vision_cache = {};
  options.prompts = {{.name = "", .text = preset.generation.prompt}};
  options.examples = config::read_examples(preset, options.read);
  return options;
}

// Adds up the clips, captions, tokens and times of these records; appends one entry per caption to
// `lengths`. Equal files count once, because nothing was computed for the copies.
void count_records(const std::vector<records::Record>& records, bench::VideoRun& run,
                   std::vector<bench::SequenceLengths>& lengths) {
  std::set<std::string> captioned;
  std::set<std::string> failed;
  std::vector<double> first_token_ms;
  std::vector<double> clip_ms;
  for (const records::Record& record : records) {
    if (!record.copy_of.empty()) continue;
    if (record.status == records::Status::kFailed) {
      failed.insert(record.video);
      continue;
    }
    captioned.insert(record.video);
    ++run.num_captions;
    run.prompt_tokens += record.prompt_tokens;
    run.output_tokens += record.output_tokens;
    first_token_ms.push_back(record.first_token_ms);
    clip_ms.push_back(record.total_ms);
    lengths.push_back(
        {.prompt_tokens = record.prompt_tokens, .output_tokens = record.output_tokens});
  }
  run.num_clips = std::ssize(captioned);
  run.num_failed = std::ssize(failed);
  run.first_token_ms = bench::summarise(std::move(first_token_ms));
  run.clip_ms = bench::summarise(std::move(clip_ms));
}

// What a run captions, and how.
struct Measured {
  model::CaptionModel& model;
  const pipeline::InputList& inputs;
  pipeline::Options options;
  bench::DecoderCosts costs;
};

bench::VideoRun run_once(const Measured& measured, std::vector<records::Record>& records) {
  const auto& [model, inputs, options, costs] = measured;
  CollectingSink sink;
  bench::reset_peak_memory();
  const Stopwatch stopwatch;
  const pipeline::Outcome outcome = pipeline::run(model, inputs, options, sink);
  bench::VideoRun run;
  run.seconds = stopwatch.elapsed_ms() / 1e3;
  run.peak_bytes = bench::process_memory().peak_bytes;
  std::vector<bench::SequenceLengths> lengths;
  count_records(sink.records, run, lengths);
  const auto seconds = [](std::int64_t us) { return static_cast<double>(us) / 1e6; };
  run.stages = {{"decode", seconds(outcome.busy.decode_us), options.threads.decode},
                {"vision", seconds(outcome.busy.vision_us), 1},
                {"engine", seconds(outcome.busy.engine_us), 1}};
  run.stats = outcome.engine;
  run.cost = bench::cost_of_run(costs, options.engine.kv_dtype, lengths, outcome.engine);
  records = std::move(sink.records);
  return run;
}

// Scores the captions that answer `prompt` against its references.
eval::Report evaluate(const eval::References& references, const std::string& prompt,
                      const std::vector<records::Record>& records) {
  std::vector<eval::CaptionEntry> captions;
  for (const records::Record& record : records) {
    if (record.prompt != prompt) continue;
    captions.push_back({.video = record.video,
                        .caption = record.caption,
                        .is_failed = record.status == records::Status::kFailed,
                        .where = "this run",
                        .path = record.file ? record.file->path : ""});
  }
  eval::EvaluateOptions options;
  options.metrics = {eval::Metric::kMeteorKo};
  return eval::evaluate(eval::pair_up(references, captions), options);
}

std::vector<bench::VideoScore> scores_of(const eval::Report& report) {
  std::vector<bench::VideoScore> scores;
  for (const eval::MetricReport& metric : report.metrics) {
    scores.push_back({.metric = std::string(eval::metric_name(metric.metric)),
                      .value = metric.scored.value,
                      .low = metric.scored.interval.low,
                      .high = metric.scored.interval.high});
  }
  return scores;
}

void report_copies(const std::vector<records::Record>& records) {
  const std::int64_t num_copies =
      std::count_if(records.begin(), records.end(),
                    [](const records::Record& record) { return !record.copy_of.empty(); });
  if (num_copies == 0) return;
  log_info("bench", counted(num_copies, "caption is that of another clip",
                            "captions are those of other clips") +
                        " of the same content and not counted");
}

bench::Roofline measure_machine(const Context& context) {
  ThreadPool pool(context.num_threads);
  Stream stream(context, pool);
  return bench::measure_roofline(stream);
}

struct PricedOptions {
  std::string name;
  engine::EngineOptions options;
  // The model in this variant's weight format; null: the preset's model.
  std::unique_ptr<model::CaptionModel> model = nullptr;
  weights::WeightFormat weights = weights::WeightFormat::kBF16;
};

// Opens the model in a format of weights; null, with a line in the log, for one that it cannot be
// held in: codes of a file are not rounded a second time.
std::unique_ptr<model::CaptionModel> open_in(const Context& context, const config::Preset& preset,
                                             const config::Locations& locations) {
  try {
    return config::open_model(context, preset, locations);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnavailable) throw;
    log_info("bench", "left out: " + std::string(error.what()));
    return nullptr;
  }
}

// The model's files in every weight format that runs here; KV pages as in the preset.
std::vector<PricedOptions> weight_variants(const Context& context, const config::Preset& preset,
                                           const config::Locations& locations,
                                           const engine::EngineOptions& options) {
  using config::WeightFormat;
  std::vector<PricedOptions> variants;
  for (const WeightFormat format :
       {WeightFormat::kF32, WeightFormat::kBF16, WeightFormat::kInt8, WeightFormat::kW8A8,
        WeightFormat::kInt4, WeightFormat::kInt4Head4, WeightFormat::kW4A8,
        WeightFormat::kW4A8Head4, WeightFormat::kNf4}) {
    config::Preset changed = preset;
    changed.quantization.weights = format;
    PricedOptions variant{.name = {},
                          .options = options,
                          .model = open_in(context, changed, locations),
                          .weights = config::weight_format(changed.quantization)};
    if (variant.model == nullptr) continue;
    variant.name = std::string(config::choice_name(format)) + " weights, " +
                   format_bytes(variant.model->weight_bytes());
    variants.push_back(std::move(variant));
  }
  return variants;
}

std::vector<PricedOptions> kv_variants(const engine::EngineOptions& options) {
  std::vector<PricedOptions> variants;
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kI8, DType::kF32}) {
    variants.push_back({.name = std::string(dtype_name(dtype)) + " KV", .options = options});
    variants.back().options.kv_dtype = dtype;
  }
  return variants;
}

// The number of kept tokens is a share of the prompt, because prompt lengths differ between models.
std::vector<PricedOptions> attention_variants(const engine::EngineOptions& options,
                                              std::int64_t prompt_tokens) {
  std::vector<PricedOptions> variants;
  const auto add = [&](std::string name, const engine::EngineOptions& changed) {
    variants.push_back({.name = std::move(name), .options = changed});
  };
  add("full attention", options);
  for (const std::int64_t part : {2, 4}) {
    engine::EngineOptions merged = options;
    merged.compression.mode = engine::CompressionMode::kTopkMerge;
    merged.compression.keep_tokens = static_cast<std::int32_t>(
        std::max<std::int64_t>(merged.compression.window_tokens, prompt_tokens / part));
    merged.compression.num_summaries = 8;
    add("topk-merge, " + std::to_string(merged.compression.keep_tokens) + " of " +
            std::to_string(prompt_tokens) + " kept",
        merged);
  }
  for (const float threshold : {0.01F, 0.05F}) {
    engine::EngineOptions squeezed = options;
    squeezed.compression.mode = engine::CompressionMode::kSqueezed;
    squeezed.compression.threshold = threshold;
    add("squeezed, clusters above " + std::to_string(static_cast<int>(threshold * 100)) + " %",
        squeezed);
  }
  return variants;
}

// The same clips with the options, and the model if there is one, of a variant.
Measured changed_by(const PricedOptions& variant, const Measured& measured) {
  Measured changed{.model = variant.model != nullptr ? *variant.model : measured.model,
                   .inputs = measured.inputs,
                   .options = measured.options,
                   .costs = measured.costs};
  changed.options.engine = variant.options;
  if (variant.model != nullptr) changed.costs.weights = variant.weights;
  return changed;
}

// One run with each model that is measured, so that the first row, to which the others are
// compared, does not pay for what is read once. Returns the mean prompt tokens of a caption of the
// last one.
std::int64_t warm_up(const Measured& measured, const std::vector<PricedOptions>& variants) {
  std::vector<records::Record> records;
  std::int64_t prompt_tokens = 0;
  const auto run = [&](const Measured& one) {
    const bench::VideoRun warm = run_once(one, records);
    prompt_tokens = warm.prompt_tokens / std::max<std::int64_t>(1, warm.num_captions);
  };
  const bool have_models = !variants.empty() && variants.front().model != nullptr;
  log_info("bench",
           have_models ? "prices, a run to warm up with each model" : "prices, a run to warm up");
  if (!have_models) run(measured);
  for (const PricedOptions& variant : variants) {
    if (variant.model != nullptr) run(changed_by(variant, measured));
  }
  return prompt_tokens;
}

bench::PriceReport measure_prices(const BenchVideos& wanted, const Measured& measured,
                                  const std::optional<eval::References>& references,
                                  std::vector<PricedOptions> variants) {
  const std::int64_t prompt_tokens = warm_up(measured, variants);
  if (variants.empty()) variants = attention_variants(measured.options.engine, prompt_tokens);
  std::vector<records::Record> records;
  std::vector<records::Record> base_records;
  std::optional<eval::Report> base_scores;
  bench::PriceReport report;
  for (const PricedOptions& variant : variants) {
    report.rows.push_back({.name = variant.name});
    if (variant.model != nullptr) report.rows.back().weight_bytes = variant.model->weight_bytes();
  }
  for (int round = 0; round < wanted.repeat; ++round) {
    for (std::size_t i = 0; i < variants.size(); ++i) {
      log_info("bench", variants[i].name + ", run " + std::to_string(round + 1) + " of " +
                            std::to_string(wanted.repeat));
      report.rows[i].runs.push_back(run_once(changed_by(variants[i], measured), records));
      if (round > 0) continue;
      if (i == 0) base_records = records;
      report.rows[i].captions = compare_captions(records, base_records);
      if (!references.has_value()) continue;
      eval::Report scores = evaluate(*references, measured.options.prompts.front().name, records);
      report.rows[i].scores = scores_of(scores);
      if (i > 0) report.rows[i].differences = differences(scores, *base_scores);
      if (i == 0) base_scores = std::move(scores);
    }
  }
  return report;
}

// The variants of the option whose prices are wanted; none for attention, whose variants depend on
// the lengths of the prompts.
std::vector<PricedOptions> price_variants(const Context& context, PriceOf price,
                                          const config::Preset& preset,
                                          const config::Locations& locations,
                                          const engine::EngineOptions& options) {
  if (price == PriceOf::kKvCache) return kv_variants(options);
  if (price == PriceOf::kWeights) return weight_variants(context, preset, locations, options);
  return {};
}

// The prompts by name. Throws Error(kUsage) for one with which no clip could be captioned.
std::vector<pipeline::Prompt> fitting_prompts(const BenchVideos& wanted,
                                              const config::Preset& preset,
                                              model::CaptionModel& model,
                                              const std::vector<pipeline::Example>& examples) {
  std::vector<pipeline::Prompt> prompts = pipeline::name_prompts(
      wanted.prompts.empty() ? std::vector<std::string>{preset.generation.prompt} : wanted.prompts);
  std::vector<model::Conversation> conversations;
  for (pipeline::Prompt& prompt : prompts) {
    if (prompt.text.empty()) prompt.text = model.default_prompt();
    conversations.push_back(
        pipeline::conversation_of(preset.generation.system, examples, prompt.text));
  }
  config::require_fitting_prompts(preset, model, conversations);
  return prompts;
}

// Prints the prices and returns the exit code.
int report_prices(const BenchVideos& wanted, const bench::PriceReport& prices) {
  if (wanted.json != "-") std::cout << bench::to_table(prices);
  if (!wanted.json.empty()) write_text(wanted.json, bench::to_json(prices));
  return prices.rows.front().median_run().num_failed > 0 ? kExitClipsFailed : kExitOk;
}

}  // namespace

int bench_videos(const BenchVideos& wanted, const Context& context,
                 const config::LoadedPreset& loaded, const Machine& machine) {
  config::Preset preset = loaded.preset;
  config::require_available(preset, has_cuda_kernels());
  const pipeline::FoundVideos found = pipeline::find_videos(wanted.paths);
  if (found.inputs.empty()) {
    throw Error(ErrorCode::kUsage, "bench: no file in what was given; name videos or folders");
  }
  for (const std::string& skipped : pipeline::describe_skipped(found))
    log_warning("bench", skipped);
  const pipeline::InputList& inputs = found.inputs;
  const config::Locations& locations = loaded.locations;
  const std::unique_ptr<model::CaptionModel> model = config::open_model(context, preset, locations);
  config::adopt_generation_config(preset, model->generation_config());
  config::require_consistent(preset);
  const bench::DecoderCosts costs = {
      .shape = config::find_preset_blueprint(preset.model, locations).blueprint.text.value(),
      .weights = config::weight_format(preset.quantization)};
  pipeline::Options options = make_options(preset, machine, *model);
  options.prompts = fitting_prompts(wanted, preset, *model, options.examples);
  // Before anything is captioned: what is wrong with them would cost the whole run.
  std::optional<eval::References> references;
  if (!wanted.references.empty()) {
    references = eval::choose_references(eval::read_references(wanted.references),
                                         options.prompts.front().name);
  }

  bench::VideoReport report;
  report.subject = {.model = preset.model.is_composed ? preset.model.llm : preset.model.path,
                    .setting = std::string(weights::describe(costs.weights)) + " weights, " +
                               std::string(dtype_name(options.engine.kv_dtype)) + " KV, " +
                               counted(context.num_threads, "thread") + ", " +
                               std::string(cpu_tier_name(context.cpu_tier))};
  const Measured measured{.model = *model, .inputs = inputs, .options = options, .costs = costs};
  if (wanted.price != PriceOf::kNothing) {
    bench::PriceReport prices =
        measure_prices(wanted, measured, references,
                       price_variants(context, wanted.price, preset, locations, options.engine));
    prices.subject = report.subject;
    return report_prices(wanted, prices);
  }
  report.max_num_seqs = preset.engine.max_num_seqs;
  report.before = measure_machine(context);
  std::vector<records::Record> records;
  for (int round = 0; round < wanted.repeat; ++round) {
    log_info("bench",
             "videos, run " + std::to_string(round + 1) + " of " + std::to_string(wanted.repeat));
    report.runs.push_back(run_once(measured, records));
  }
  report.after = measure_machine(context);
  report_copies(records);
  if (references.has_value()) {
    report.scores = scores_of(evaluate(*references, options.prompts.front().name, records));
  }
  if (wanted.json != "-") std::cout << bench::to_table(report);
  if (!wanted.json.empty()) write_text(wanted.json, bench::to_json(report));
  return report.median_run().num_failed > 0 ? kExitClipsFailed : kExitOk;
}

}  // namespace caption::cli
