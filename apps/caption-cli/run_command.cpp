#include "run_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "backend/machine.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/units.h"
#include "config/adapters.h"
#include "config/choices.h"
#include "config/devices.h"
#include "config/draft_model.h"
#include "config/draft_reading.h"
#include "config/examples.h"
#include "config/generation_defaults.h"
#include "config/pipeline_options.h"
#include "config/resolve.h"
#include "config/self_draft.h"
#include "dry_run.h"
#include "environment.h"
#include "exit_codes.h"
#include "globals.h"
#include "input_flags.h"
#include "interrupts.h"
#include "pipeline/pipeline.h"
#include "pipeline/progress.h"
#include "planned_run.h"
#include "preset_flags.h"
#include "record_log.h"
#include "records/file_name.h"
#include "replicas.h"
#include "run_flags.h"
#include "streamed_caption.h"
#include "write_checks.h"

namespace caption::cli {
namespace {

std::vector<pipeline::Prompt> choose_prompts(const RunFlags& flags, const config::Preset& preset) {
  if (flags.prompts_file.empty()) {
    return pipeline::name_prompts(flags.preset.prompts.empty()
                                      ? std::vector<std::string>{preset.generation.prompt}
                                      : flags.preset.prompts);
  }
  if (!flags.preset.prompts.empty()) {
    throw Error(ErrorCode::kUsage, "--prompt and --prompts exclude each other");
  }
  const EndsAtInterrupt ends;  // the file may be a FIFO
  return pipeline::read_prompts(flags.prompts_file);
}

std::vector<model::Conversation> conversations_of(const pipeline::Options& options) {
  std::vector<model::Conversation> conversations;
  for (const pipeline::Prompt& prompt : options.prompts) {
    conversations.push_back(
        pipeline::conversation_of(options.system, options.examples, prompt.text));
  }
  return conversations;
}

pipeline::ProgressStyle progress_style(const RunFlags& flags) {
  // A live line and a streamed caption would overwrite each other.
  if (flags.quiet || flags.output.is_streamed) return pipeline::ProgressStyle::kSilent;
  return pipeline::choose_progress_style(stderr_is_terminal(), environment_variable("TERM"));
}

// Reports doubtful captions: the reason for a streamed caption, the number of them for records.
void report_doubts(const OutputFlags& output, const pipeline::Progress& progress,
                   const std::string& last_doubt) {
  if (output.is_streamed) {
    if (!last_doubt.empty()) log_warning("run", last_doubt);
    return;
  }
  if (const std::string text = pipeline::describe_suspicious(progress); !text.empty()) {
    log_warning("run", text);
  }
  if (const std::string text = pipeline::describe_warned(progress); !text.empty()) {
    log_warning("run", text);
  }
  if (const std::string text = pipeline::describe_truncated(progress); !text.empty()) {
    log_info("run", text);
  }
}

int report(const pipeline::Outcome& outcome, const pipeline::ThreadPlan& threads,
           const RunOutput& output) {
  const std::string unfinished = output.unfinished_file();
  switch (outcome.ending) {
    case pipeline::Ending::kReaderGone:
      log_info("run", pipeline::describe_reader_gone(outcome.progress));
      return kExitReaderGone;
    case pipeline::Ending::kCancelled:
      log_warning("run",
                  pipeline::describe_interruption(outcome.progress) +
                      (output.can_continue() ? "; the same command continues"
                                             : "; with -o FILE.jsonl a run can be continued") +
                      (unfinished.empty() ? "" : "; its records are in " + unfinished));
      return kExitInterrupted;
    case pipeline::Ending::kFinished: break;
  }
  log_info("run", pipeline::describe_speed(outcome));
  if (outcome.progress.clips_done > 0) {
    log_info("run", pipeline::describe_busy(outcome, threads));
    const std::string caches = pipeline::describe_caches(outcome);
    if (!caches.empty()) log_info("run", caches);
    const std::string drafts = pipeline::describe_drafts(outcome);
    if (!drafts.empty()) log_info("run", drafts);
  }
  const pipeline::Progress& done = outcome.progress;
  const std::int64_t num_failed =
      done.clips_failed + done.found_failed + done.kept_failed + done.folders_unread;
  return num_failed > 0 ? kExitClipsFailed : kExitOk;
}

int report_unread_caption() {
  log_info("run", "nobody reads standard output any more; the caption is not finished");
  return kExitReaderGone;
}

void check_stream(const RunFlags& flags, const config::Preset& preset, std::size_t num_inputs,
                  std::size_t num_prompts) {
  if (!flags.output.is_streamed) return;
  if (num_inputs != 1 || num_prompts != 1) {
    throw Error(ErrorCode::kUsage, "--stream is for one video and one prompt; found " +
                                       counted(static_cast<std::int64_t>(num_inputs), "video") +
                                       " and " +
                                       counted(static_cast<std::int64_t>(num_prompts), "prompt"));
  }
  if (preset.generation.num_beams > 1) {
    throw Error(ErrorCode::kUsage, "--stream and beams exclude each other: beams end together");
  }
  if (flags.output.is_stdout() && preset.generation.num_logprobs >= 0) {
    throw Error(ErrorCode::kUsage,
                "--stream writes the caption alone, without --logprobs; a record with them goes "
                "with -o FILE");
  }
  if (flags.output.is_stdout() && !flags.output.format.empty()) {
    throw Error(ErrorCode::kUsage, "--stream writes the caption alone; --format goes with -o FILE");
  }
}

// Throws as pipeline::require_adapters(), and warns of adapters that nothing chooses.
void check_adapters(const pipeline::Options& options, const pipeline::InputList& inputs) {
  pipeline::require_adapters(options, inputs);
  for (const std::string& name : pipeline::unchosen_adapters(options, inputs)) {
    const std::string quoted = json_quote(name);
    log_warning("run", "no clip and no prompt chooses the adapter " + quoted +
                           ", so it changes no caption: {\"video\": PATH, \"adapter\": " + quoted +
                           "} in the list of - or {\"prompt\": TEXT, \"adapter\": " + quoted +
                           "} in --prompts chooses it; --adapter FOLDER without a name is for "
                           "every clip");
  }
}

// Rejects options with which no clip could be captioned, before anything is written.
void require_possible(const config::Preset& preset, model::CaptionModel& model,
                      model::CaptionModel* draft, const pipeline::Options& options,
                      const pipeline::InputList& inputs) {
  check_adapters(options, inputs);
  const std::vector<model::Conversation> conversations = conversations_of(options);
  config::require_fitting_prompts(preset, model, conversations);
  config::require_fitting_pages(preset, model, draft, conversations, options.engine.kv_cache_bytes);
  require_usable_cache(preset.engine.kv_cache_dir);
}

// Returns by how many tokens system prompt and examples lengthen a prompt, the most of all prompts.
// A system prompt may be shorter than the one of the family that it replaces.
std::int64_t count_lead_tokens(const model::CaptionModel& model, const pipeline::Options& options) {
  std::int64_t most = 0;
  const model::ClipShape clip = {.num_frames = 1};
  for (const model::Conversation& conversation : conversations_of(options)) {
    most = std::max(most, std::ssize(model.build_prompt(conversation, clip).ids) -
                              std::ssize(model.build_prompt(conversation.prompt, clip).ids));
  }
  return most;
}

void say_demonstration(const model::CaptionModel& model, const config::Preset& preset) {
  if (!model.is_demonstration()) return;
  constexpr std::int64_t kMostFrames = 16;  // it was trained on 8: scripts/demo_model/dataset.py
  if (preset.video.num_frames > kMostFrames) {
    log_warning("run", "the demonstration model was trained on 8 frames of a clip; with " +
                           std::to_string(preset.video.num_frames) +
                           " its captions will be worse, or no sentences");
  }
  if (!preset.generation.system.empty() || !preset.generation.examples.empty()) {
    log_warning("run",
                "the demonstration model was never trained with a system prompt or examples; its "
                "captions will be worse with them");
  }
  log_info("run",
           "this is the demonstration model: it knows drawn background scenes only; --model names "
           "one for films");
}

// Logs the details of -v, adapters, and drafts that nothing has, before the first clip.
void log_choices(model::CaptionModel& model, const pipeline::Options& options,
                 const PresetFlags& flags, std::size_t num_inputs) {
  log_detail("run",
             "model " + std::string(model.family()) + ", weights of " +
                 format_bytes(model.weight_bytes()) + " for " + model.context().arithmetic() +
                 ", at most " +
                 format_bytes(engine::kv_pool_bytes(model.decoder().spec(), options.engine)) +
                 " of KV pages");
  log_detail("run", counted(static_cast<std::int64_t>(num_inputs), "file") + ", " +
                        counted(std::ssize(options.prompts), "prompt"));
  for (const model::AdapterSummary& adapter : model.adapter_summaries()) {
    log_info("run", "adapter " + (adapter.name.empty() ? "" : adapter.name + " ") + "of " +
                        records::escape_file_name(adapter.folder.string()) + ": " +
                        counted(adapter.num_modules, "module"));
  }
  // warn_of_unused() tells of --drafts on the command line.
  const config::DraftMethod method = options.drafts.how.method;
  const bool is_of_preset =
      std::none_of(flags.overrides.begin(), flags.overrides.end(),
                   [](const config::Override& flag) { return flag.key == "speculative.method"; });
  if (is_of_preset && method != config::DraftMethod::kNone && options.sampling.num_beams > 1) {
    log_info("run", "the preset's drafts (" + std::string(config::choice_name(method)) +
                        ") have no effect on beams");
  }
}

// Takes the model's own settings of generation where nothing else is given, and says which options
// of the command line change nothing, and which prompts are given twice.
void adopt_settings(const model::CaptionModel& model, const RunFlags& flags,
                    config::LoadedPreset& loaded) {
  config::adopt_generation_config(loaded.preset, model.generation_config());
  config::require_consistent(loaded.preset);
  warn_of_unused("run", loaded, flags.preset.overrides,
                 {.device = model.context().device,
                  .is_jsonl = choose_format(flags.output) == records::Format::kJsonl});
  std::set<std::string_view> texts;
  for (const std::string& prompt : flags.preset.prompts) {
    if (texts.insert(prompt).second) continue;
    log_warning("run", "--prompt " + json_quote(prompt) +
                           " is given more than once, and every clip answers it each time");
  }
}

void be_quiet_if_asked(const RunFlags& flags) {
  if (!flags.quiet) return;
  if (log_level() < LogLevel::kInfo) {
    throw Error(ErrorCode::kUsage, "run: -q and -v exclude each other");
  }
  set_log_level(LogLevel::kWarning);
}

// Captions the inputs and returns the exit code.
int caption_clips(const RunFlags& flags, const Replicas& replicas,
                  const pipeline::InputList& inputs, pipeline::Options options,
                  const records::Manifest& manifest) {
  model::CaptionModel& model = *replicas.get().front().model;
  StreamedCaption streamed(*options.stop);
  if (flags.output.is_streamed) {
    options.on_text = [&](std::string_view text) { streamed.write(text); };
  }
  log_choices(model, options, flags.preset, inputs.size());
  RunOutput output(flags.output, manifest);
  const pipeline::ThreadPlan threads = options.threads;
  log_info("run", "threads " + pipeline::describe_threads(model.context().num_threads, threads));
  pipeline::Outcome outcome;
  RecordLog sink(output.sink());
  {
    pipeline::ProgressLine line(progress_style(flags));
    options.on_progress = [&line](const pipeline::Progress& progress) { line.update(progress); };
    outcome = pipeline::run(replicas.get(), inputs, std::move(options), sink);
  }
  if (!streamed.end()) return report_unread_caption();
  output.finish(outcome);
  report_doubts(flags.output, outcome.progress, sink.last_doubt());
  return report(outcome, threads, output);
}

// Replaces `auto` in quantization.weights with the format of the output's records, if it has some,
// so that the same command continues them, else with the one that is best here.
void choose_weights(const RunFlags& flags, const Context& context, const Machine& machine,
                    const std::vector<pipeline::Prompt>& prompts, const std::atomic<bool>& stop,
                    config::LoadedPreset& loaded) {
  config::WeightFormat& weights = loaded.preset.quantization.weights;
  if (weights != config::WeightFormat::kAuto) return;
  if (const std::optional<config::WeightFormat> kept = weights_of_output(flags.output)) {
    weights = *kept;
    log_info("run", "weights as " + std::string(config::choice_name(weights)) +
                        ", in which the records of " +
                        records::escape_file_name(flags.output.path) + " were made");
    return;
  }
  std::vector<std::string> texts;
  for (const pipeline::Prompt& prompt : prompts) texts.push_back(prompt.text);
  settle_weights("run", context, machine, loaded, texts, &stop);
}

// An empty prompt is the model's own.
std::vector<pipeline::Prompt> with_default(std::vector<pipeline::Prompt> prompts,
                                           const model::CaptionModel& model) {
  for (pipeline::Prompt& prompt : prompts) {
    if (prompt.text.empty()) prompt.text = model.default_prompt();
  }
  return prompts;
}

config::OpenChoices open_choices(const RunFlags& flags, const std::atomic<bool>& stop) {
  return {.digests = flags.is_dry ? config::KeepDigests::kNo : config::KeepDigests::kYes,
          .cancelled = &stop};
}

// One for each device that captions clips.
std::vector<Context> contexts_of(const RunFlags& flags, const Globals& globals,
                                 const config::Preset& preset, const Machine& machine) {
  std::vector<Context> contexts = config::run_contexts(preset, machine, globals.context().cpu_tier);
  if (flags.output.is_streamed) contexts.resize(1);  // a single clip
  return contexts;
}

config::LoadedPreset load_usable_preset(const RunFlags& flags, const Globals& globals,
                                        const Machine& machine) {
  const EndsAtInterrupt ends;  // the preset may be a FIFO
  config::LoadedPreset loaded = load_preset(flags.preset, globals.locations, machine);
  if (!loaded.note.empty()) log_info("config", loaded.note);
  config::require_available(loaded.preset, has_cuda_kernels());
  config::require_device_list(loaded.preset, machine);
  config::require_consistent(loaded.preset);
  return loaded;
}

int run(const RunFlags& flags, const Globals& globals) {
  check_output(flags.output, flags.input.paths);
  be_quiet_if_asked(flags);
  say_format(flags.output);
  std::atomic<bool>& stop = catch_interrupts();
  const Machine machine = detect_machine();
  config::LoadedPreset loaded = load_usable_preset(flags, globals, machine);
  config::Preset& preset = loaded.preset;
  std::vector<pipeline::Prompt> prompts = choose_prompts(flags, preset);
  video::ReadOptions read = config::read_options(preset);
  read.cancelled = &stop;
  const pipeline::InputList inputs =
      find_inputs(flags.input, read, config::adapter_names(preset.model.adapter));
  std::vector<pipeline::Example> examples = config::read_examples(preset, read);

  const std::vector<Context> contexts = contexts_of(flags, globals, preset, machine);
  choose_weights(flags, contexts.front(), machine, prompts, stop, loaded);
  config::DraftReading draft_reading(preset);
  const config::OpenChoices choices = open_choices(flags, stop);
  std::unique_ptr<model::CaptionModel> model =
      config::open_model(contexts.front(), preset, loaded.locations, choices);
  say_demonstration(*model, preset);
  adopt_settings(*model, flags, loaded);
  check_stream(flags, preset, inputs.size(), prompts.size());
  const Sha256 model_hash = model->content_hash();
  std::unique_ptr<model::CaptionModel> draft =
      config::open_draft_model(contexts.front(), preset, loaded.locations, *model, choices);
  pipeline::Options options =
      config::pipeline_options(preset, machine, *model, model_hash,
                               {.num_replicas = static_cast<int>(contexts.size()),
                                .draft = draft.get(),
                                .draft_reading = &draft_reading,
                                .cancelled = &stop});
  options.stop = &stop;
  options.trust_times = flags.trust_times;
  options.prompts = with_default(std::move(prompts), *model);
  options.examples = std::move(examples);
  require_possible(preset, *model, draft.get(), options, inputs);
  const records::Manifest manifest = make_manifest(preset, *model, model_hash, options);
  if (flags.is_dry) {
    return dry_run({.preset = preset,
                    .locations = loaded.locations,
                    .output = flags.output,
                    .manifest = manifest,
                    .inputs = inputs,
                    .options = options,
                    .devices = device_names(preset, machine),
                    .num_lead_tokens = count_lead_tokens(*model, options)});
  }
  add_captions_of_output(flags.output, stop, options.drafts);
  options.drafts.layers = config::open_layer_choice(loaded, *model, model_hash);
  const Replicas replicas({.loaded = loaded,
                           .machine = machine,
                           .contexts = contexts,
                           .conversations = conversations_of(options),
                           .cancelled = &stop},
                          {.model = std::move(model), .draft = std::move(draft)},
                          options.engine.kv_cache_bytes);
  return caption_clips(flags, replicas, inputs, std::move(options), manifest);
}

}  // namespace

void add_run_command(CLI::App& root, const Globals& globals, int& exit_code) {
  CLI::App* command = root.add_subcommand(
      "run",
      "Caption videos: one record per clip\n"
      "Finds the videos, decodes the frames that the model wants, captions them, and writes a "
      "record "
      "for each clip as soon as it is finished. A clip that cannot be captioned has a record with "
      "status failed and a reason; the others go on, and the exit code is 1.");
  auto flags = std::make_shared<RunFlags>();
  add_run_flags(*command, *flags);
  command->footer(
      "caption-cli run -o captions.jsonl videos/\n"
      "caption-cli run --quality --format csv -o captions.csv a.mp4 b.mkv\n"
      "find archive -name '*.mp4' -print0 | caption-cli run -0 -o all.jsonl -");
  command->callback([flags, &globals, &exit_code] { exit_code = run(*flags, globals); });
}

}  // namespace caption::cli
