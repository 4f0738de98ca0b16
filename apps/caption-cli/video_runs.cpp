#include "video_runs.h"

#include <set>
#include <span>
#include <utility>

#include "base/clock.h"
#include "base/counted.h"
#include "base/join.h"
#include "base/json.h"
#include "base/paths.h"
#include "bench/process_memory.h"
#include "config/draft_model.h"
#include "config/examples.h"
#include "config/generation_defaults.h"
#include "config/pipeline_options.h"
#include "config/preset_blueprint.h"
#include "config/resolve.h"
#include "records/file_name.h"

namespace caption::cli {
namespace {

pipeline::Options make_options(const config::Preset& preset, const Machine& machine,
                               const OpenedModel& opened) {
  model::CaptionModel& model = *opened.model;
  pipeline::Options options = config::pipeline_options(preset, machine, model, model.content_hash(),
                                                       {.draft = opened.draft.get()});
  options.engine.disk = {};  // a run must not find pages that another run stored
  options.vision_cache = {};
  options.examples = config::read_examples(preset, options.read);
  return options;
}

// The prompts with their texts. Throws Error(kUsage) for one with which no clip could be captioned.
std::vector<pipeline::Prompt> fitting_prompts(std::vector<pipeline::Prompt> prompts,
                                              const OpenedModel& opened) {
  std::vector<model::Conversation> conversations;
  for (pipeline::Prompt& prompt : prompts) {
    if (prompt.text.empty()) prompt.text = opened.model->default_prompt();
    conversations.push_back(pipeline::conversation_of(opened.preset.generation.system,
                                                      opened.options.examples, prompt.text));
  }
  config::require_fitting_prompts(opened.preset, *opened.model, conversations);
  config::require_fitting_pages(opened.preset, *opened.model, opened.draft.get(), conversations,
                                opened.options.engine.kv_cache_bytes);
  return prompts;
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

// Throws as eval::pair_up() if no clip has a reference. Clips that are equal in content may have
// the same name, which records tell and names do not.
void require_references(const eval::References& references, const pipeline::InputList& inputs) {
  std::vector<eval::CaptionEntry> clips;
  const auto is_paired = [&](std::vector<eval::CaptionEntry> some) {
    try {
      eval::pair_up(references, some);
      return true;
    } catch (const Error& error) {
      if (is_of_machine(error.code())) throw;
      return false;
    }
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string path(inputs.path(i));
    clips.push_back({.video = records::escape_file_name(path),
                     .caption = "",
                     .where = "the videos",
                     .path = absolute_path(path).string()});
    if (is_paired({clips.back()})) return;
  }
  eval::pair_up(references, clips);
}

}  // namespace

VideoBench make_video_bench(const BenchVideos& wanted, const Context& context,
                            const Machine& machine, const config::LoadedPreset& loaded,
                            const pipeline::InputList& inputs) {
  VideoBench bench{
      .wanted = wanted,
      .context = context,
      .machine = machine,
      .locations = loaded.locations,
      .inputs = inputs,
      .prompts = pipeline::name_prompts(
          wanted.prompts.empty() ? std::vector<std::string>{loaded.preset.generation.prompt}
                                 : wanted.prompts),
      .references = std::nullopt};
  // Before anything is captioned: what is wrong with them would cost the whole run.
  if (!wanted.references.empty()) {
    bench.references = eval::choose_references(eval::read_references(wanted.references),
                                               bench.prompts.front().name);
    require_references(*bench.references, inputs);
  }
  return bench;
}

OpenedModel open_for_bench(const VideoBench& bench, const config::Preset& preset) {
  OpenedModel opened{.model = config::open_model(bench.context, preset, bench.locations),
                     .draft = nullptr,
                     .preset = preset,
                     .options = {},
                     .costs = {}};
  config::adopt_generation_config(opened.preset, opened.model->generation_config());
  config::require_consistent(opened.preset);
  opened.costs = {.model = config::find_preset_blueprint(preset.model, bench.locations).blueprint,
                  .weights = config::weight_format(preset.quantization)};
  if (bench.wanted.price == PriceOf::kDrafts) {
    opened.draft = config::open_draft_model(bench.context, preset, bench.locations, *opened.model);
  }
  opened.options = make_options(opened.preset, bench.machine, opened);
  opened.options.prompts = fitting_prompts(bench.prompts, opened);
  return opened;
}

std::int64_t draft_kv_cache_bytes(const OpenedModel& opened, std::int64_t kv_cache_bytes) {
  return config::draft_kv_cache_bytes(opened.preset, opened.model->decoder().spec(), kv_cache_bytes,
                                      opened.draft->decoder().spec());
}

std::string describe_work(const OpenedModel& opened) {
  const config::VideoSection& video = opened.preset.video;
  const std::string frames =
      counted(video.num_frames, "frame") + " a clip (" + video.sampling + ")";
  const bool is_by_length = opened.options.read.sampling.is_by_length();
  std::vector<std::string> prompts;
  for (const pipeline::Prompt& prompt : opened.options.prompts) {
    prompts.push_back(json_quote(prompt.text));
  }
  return (is_by_length ? "at most " : "") + frames +
         (prompts.size() > 1 ? ", prompts " : ", prompt ") + join(prompts);
}

records::AppendResult CollectingSink::append(const records::Record& record) {
  records.push_back(record);
  return records::AppendResult::kWritten;
}

bench::VideoRun run_once(const VideoBench& bench, const OpenedModel& opened,
                         const pipeline::Options& options, std::vector<records::Record>& records) {
  CollectingSink sink;
  bench::reset_peak_memory();
  const Stopwatch stopwatch;
  pipeline::Replica replica{.model = opened.model.get(),
                            .kv_cache_bytes = options.engine.kv_cache_bytes};
  if (opened.draft != nullptr && options.drafts.how.method == drafts::Method::kModel) {
    replica.draft = opened.draft.get();
    replica.draft_kv_cache_bytes = draft_kv_cache_bytes(opened, options.engine.kv_cache_bytes);
  }
  const pipeline::Outcome outcome =
      pipeline::run(std::span(&replica, 1), bench.inputs, options, sink);
  bench::VideoRun run;
  run.seconds = stopwatch.elapsed_ms() / 1e3;
  run.peak_bytes = bench::peak_bytes(bench.context.device);
  std::vector<bench::SequenceLengths> lengths;
  count_records(sink.records, run, lengths);
  const auto seconds = [](std::int64_t us) { return static_cast<double>(us) / 1e6; };
  run.stages = {{"decode", seconds(outcome.busy.decode_us), options.threads.decode},
                {"vision", seconds(outcome.busy.vision_us), 1},
                {"engine", seconds(outcome.busy.engine_us), 1}};
  run.stats = outcome.engine;
  run.drafts = outcome.drafts;
  run.drafted_steps = outcome.drafted_steps;
  run.cost = bench::cost_of_run(opened.costs, options.engine.kv_dtype, lengths, outcome.engine);
  records = std::move(sink.records);
  return run;
}

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

}  // namespace caption::cli
