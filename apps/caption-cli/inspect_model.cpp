#include "inspect_model.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "backend/machine.h"
#include "base/join.h"
#include "base/paths.h"
#include "bench/process_memory.h"
#include "config/adapters.h"
#include "config/generation_defaults.h"
#include "config/hub_cache.h"
#include "config/kept_rates.h"
#include "config/load_preset.h"
#include "config/plan_input.h"
#include "config/preset_blueprint.h"
#include "config/resolve.h"
#include "config/resources.h"
#include "config/run_planner.h"
#include "config/weight_choice.h"
#include "model/file_codes.h"
#include "model/model_files.h"
#include "model_report.h"
#include "pipeline/find_videos.h"
#include "plan/known_models.h"
#include "planned_run.h"
#include "preset_flags.h"
#include "records/file_name.h"
#include "run_obstacles.h"
#include "weights/gguf_file.h"

namespace caption::cli {
namespace {

namespace fs = std::filesystem;

// 64 MiB read three times: a few hundredths of a second, and rates that are less steady than those
// of `plan`.
constexpr bench::RooflineOptions kQuickly = {
    .buffer_bytes = 64LL << 20, .num_passes = 3, .flops_pass_us = 2'000};

ModelInspection finish(ModelReport& report, std::optional<Error> refusal) {
  return {.text = report.text(), .json = report.to_json(), .refusal = std::move(refusal)};
}

void report_kind(const char* kind, const std::string& text, ModelReport& report) {
  report.line("is", text);
  report.json().add("kind", kind);
}

// Runs `read` and returns the error of a model's file that it throws.
template <class Read>
std::optional<Error> refusal_of(const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    if (is_of_machine(error.code())) throw;
    return error;
  }
  return std::nullopt;
}

// A whole model in the place of the one that the presets name.
class Subject {
 public:
  Subject(const std::string& name, const std::vector<std::string>& adapters, const Globals& globals)
      : machine_(detect_machine()), locations_(globals.locations) {
    section_.path = config::from_working_folder(name);
    for (const std::string& text : adapters) {
      section_.adapter.push_back(config::adapter_from_working_folder(text));
    }
    loaded_ = config::load_preset("auto", locations_, machine_, has_cuda_kernels());
    loaded_.preset.model = section_;
    context_ = globals.context(config::num_threads(loaded_.preset, machine_));
    process_bytes_ = bench::process_memory().anonymous_bytes;
    check_ = check_run(context_, loaded_);
  }

  const model::CaptionModel* model() const { return check_.model.get(); }
  std::optional<Error> refusal() const {
    if (check_.obstacles.empty()) return std::nullopt;
    return Error(check_.obstacles.front().code, check_.obstacles.front().text);
  }

  // Adds presets and costs, which need the blueprint alone.
  void report_costs(const config::PresetBlueprint& found, ModelReport& report) const {
    // A run with `auto` would choose by kept rates.
    const std::optional<bench::Roofline> kept =
        config::read_rates(locations_.rates, config::rates_key(context_, loaded_.preset, machine_));
    const bench::Roofline rates =
        kept ? *kept : config::measure_host(context_, loaded_.preset, machine_, kQuickly);
    report_presets(fit_presets(found, rates), check_.obstacles.empty(), report);
    report_bytes(context_, found.blueprint, report);
    report_plan(make_plan(loaded_, found, rates), report);
  }

 private:
  plan::Plan make_plan(const config::LoadedPreset& loaded, const config::PresetBlueprint& found,
                       const bench::Roofline& rates) const {
    config::LoadedPreset used = loaded;
    // Errors of the file are among the obstacles.
    refusal_of([&] {
      const auto config = config::find_generation_config(used.preset, used.locations);
      if (config.has_value()) config::apply_generation_config(used.preset, *config);
    });
    config::RunPlanner planner({.context = context_,
                                .machine = machine_,
                                .loaded = used,
                                .found = found,
                                .prompt_tokens = check_.prompt_tokens,
                                .process_bytes = process_bytes_},
                               {.measured = rates});
    const config::WeightFormat weights = used.preset.quantization.weights;
    if (weights != config::WeightFormat::kAuto) return plan::make_plan(planner.input(weights));
    return compare_formats(planner, check_.model.get()).planned().plan;
  }

  std::vector<PresetFit> fit_presets(const config::PresetBlueprint& found,
                                     const bench::Roofline& rates) const {
    std::vector<PresetFit> fits;
    for (const config::PresetFile& file : config::list_presets(locations_.own_presets)) {
      refusal_of([&] {
        config::LoadedPreset loaded =
            config::load_preset(file.path.string(), locations_, machine_, has_cuda_kernels());
        if (loaded.preset.name != file.name) return;  // `auto` is another preset
        loaded.preset.model = section_;
        loaded.preset.speculative = {};
        // Throws for a card of which memory or rates are not known.
        PresetFit fit{.name = file.name,
                      .missing = join(config::missing_features(loaded.preset, has_cuda_kernels())),
                      .plan = make_plan(loaded, found, rates)};
        fit.lacks_codes =
            refusal_of([&] {
              model::require_file_codes(file.name, found.blueprint, fit.plan.input.weights);
            }).has_value();
        const auto& parameters = found.blueprint.parameters;
        fit.has_codes = std::any_of(
            parameters.begin(), parameters.end(),
            [](const model::Parameter& parameter) { return parameter.codes.has_value(); });
        const config::QuantizationSection& quantization = loaded.preset.quantization;
        fit.rounds_codes = fit.has_codes && quantization.weights != config::WeightFormat::kAuto &&
                           config::find_rounded_codes(quantization, found.blueprint).has_value();
        fits.push_back(std::move(fit));
      });
    }
    return fits;
  }

  Machine machine_;
  config::Locations locations_;
  config::ModelSection section_;
  config::LoadedPreset loaded_;
  Context context_;
  RunCheck check_;
  std::int64_t process_bytes_ = 0;  // memory in use before the model is opened
};

// The frames that the presets take unless they say otherwise.
constexpr std::int64_t kUsualFrames = config::VideoSection{}.num_frames;

void report_whole(const model::CaptionModel& model, std::int64_t vocab, WithHash hash,
                  ModelReport& report) {
  report_tokenizer(model.tokenizer(), vocab, report);
  report_generation(model.generation_config(), report);
  report_adapters(model.adapter_summaries(), report);
  if (hash == WithHash::kNo) return;
  report.line("hash", model.content_hash().hex());
  report.json().add("hash", model.content_hash().hex());
}

// What the blueprint of a model or of its part says.
void report_shape(const model::Blueprint& blueprint, ModelReport& report) {
  report_parameters(blueprint, report);
  if (blueprint.text.has_value()) report_decoder(*blueprint.text, report);
  if (blueprint.vision.has_value()) report_vision(*blueprint.vision, kUsualFrames, report);
}

void report_quantisation(const model::ModelFiles& files, ModelReport& report) {
  if (files.quantisation.empty()) return;
  report.line("quantised", files.quantisation);
  report.json().add("quantised", files.quantisation);
}

ModelInspection inspect_captioner(const std::string& name, const fs::path& folder,
                                  const model::ModelFiles& files,
                                  const std::vector<std::string>& adapters, WithHash hash,
                                  const Globals& globals) {
  ModelReport report(name);
  const Subject subject(folder.string(), adapters, globals);
  report_kind("captioner",
              files.model_type + ", captions videos" +
                  (files.text_type.empty() ? "" : "; its language model is " + files.text_type),
              report);
  report.json().add("model_type", files.model_type).add("text_type", files.text_type);
  refusal_of([&] { report_files(model::read_weight_files(folder), report); });
  report_quantisation(files, report);
  if (files.blueprint.has_value()) report_shape(*files.blueprint, report);
  if (subject.model() != nullptr && files.blueprint.has_value()) {
    report_whole(*subject.model(), files.blueprint->text->vocab, hash, report);
  }
  report_refusal(subject.refusal(), report);
  if (files.blueprint.has_value()) {
    subject.report_costs({.blueprint = *files.blueprint, .note = {}}, report);
  }
  return finish(report, subject.refusal());
}

// A language model or a vision tower, which run as parts of a composed model.
ModelInspection inspect_part(const std::string& name, const fs::path& folder,
                             const model::ModelFiles& files, const Globals& globals) {
  ModelReport report(name);
  const bool is_text = files.kind == model::ModelKind::kLanguageModel;
  report_kind(is_text ? "language_model" : "vision_tower",
              files.model_type + ", a " +
                  (is_text ? "language model, for model.llm of a preset, or --draft-model"
                           : "vision tower, for model.vision of a preset"),
              report);
  report.json().add("model_type", files.model_type);
  const std::optional<Error> refusal = refusal_of([&] {
    model::require_usable_part(folder);
    report_files(model::read_weight_files(folder), report);
    if (!is_text) return;
    report_tokenizer(*model::open_tokenizer(folder), files.blueprint->text->vocab, report);
    report_generation(model::read_generation_config(folder), report);
  });
  report_quantisation(files, report);
  if (files.blueprint.has_value()) report_shape(*files.blueprint, report);
  report_refusal(refusal, report);
  if (files.blueprint.has_value()) {
    report_bytes(globals.context(1), *files.blueprint, report);
  }
  return finish(report, refusal);
}

ModelInspection inspect_adapter(const std::string& name, const fs::path& folder) {
  ModelReport report(name);
  report_kind("adapter", "a LoRA adapter of PEFT, for --adapter", report);
  const std::optional<Error> refusal =
      refusal_of([&] { report_adapter_files(model::read_adapter_files(folder), report); });
  report_refusal(refusal, report);
  return finish(report, refusal);
}

// Throws Error for a folder whose files this user may not open.
void require_access(const fs::path& folder) {
  if (::access(folder.c_str(), is_folder(folder) ? R_OK | X_OK : R_OK) == 0) return;
  if (errno != EACCES) return;
  throw Error(ErrorCode::kBadModel, folder.string() + ": " + describe_errno(EACCES));
}

ModelInspection inspect_folder(const std::string& name, const fs::path& folder,
                               const std::vector<std::string>& adapters, WithHash hash,
                               const Globals& globals) {
  if (const auto refusal = refusal_of([&] { require_access(folder); })) {
    return {.text = {}, .json = {}, .refusal = refusal};
  }
  std::error_code ignored;
  const bool has_config = fs::exists(folder / "config.json", ignored);
  if (!has_config && model::is_adapter_folder(folder)) return inspect_adapter(name, folder);
  std::optional<model::ModelFiles> files;
  const std::optional<Error> refusal = refusal_of([&] { files = model::read_model_files(folder); });
  if (!files.has_value()) {
    const std::string hint = has_config ? "" : "; to look into the videos of a folder, name them";
    return {.text = {}, .json = {}, .refusal = Error(refusal->code(), refusal->what() + hint)};
  }
  const bool is_part = files->kind == model::ModelKind::kLanguageModel ||
                       files->kind == model::ModelKind::kVisionTower;
  if (is_part && !adapters.empty()) {
    throw Error(ErrorCode::kUsage, "inspect: --adapter is for whole models; " +
                                       records::escape_file_name(name) + " is a part of one");
  }
  if (is_part) return inspect_part(name, folder, *files, globals);
  if (files->kind == model::ModelKind::kCaptioner) {
    return inspect_captioner(name, folder, *files, adapters, hash, globals);
  }
  ModelReport report(name);
  const Subject subject(folder.string(), adapters, globals);
  report_kind("other", files->model_type + ", which this build does not run", report);
  report.json().add("model_type", files->model_type);
  refusal_of([&] { report_files(model::read_weight_files(folder), report); });
  report_quantisation(*files, report);
  report_refusal(subject.refusal(), report);
  return finish(report, subject.refusal());
}

// A model that is not here, from the table of known models.
ModelInspection inspect_absent(const std::string& name, const Error& error,
                               const Globals& globals) {
  const std::optional<model::Blueprint> known = plan::find_known_model(name);
  if (!known.has_value()) return {.text = {}, .json = {}, .refusal = error};
  ModelReport report(name);
  const bool is_part = plan::find_known_use(name) == plan::KnownUse::kPart;
  report_kind(is_part ? "absent_part" : "absent",
              "not here; known by name" +
                  std::string(is_part ? ", part of a composed model" : ", captions videos"),
              report);
  report_shape(*known, report);
  report_refusal(error, report);
  if (is_part) {
    report_bytes(globals.context(1), *known, report);
  } else {
    const Subject subject(name, {}, globals);
    subject.report_costs({.blueprint = *known, .note = "known by name"}, report);
  }
  return finish(report, error);
}

// A GGUF file that is neither a captioner's language model nor a part of a composed model.
ModelInspection inspect_other_gguf(const std::string& name, const fs::path& file,
                                   const Globals& globals) {
  ModelReport report(name);
  report_kind("gguf", "a GGUF file", report);
  std::optional<Error> refusal =
      refusal_of([&] { report_gguf(weights::GgufFile::open(file), report); });
  // The sentence with which a run ends that is given the file.
  if (!refusal.has_value()) refusal = Subject(file.string(), {}, globals).refusal();
  report_refusal(refusal, report);
  return finish(report, refusal);
}

ModelInspection inspect_gguf(const std::string& name, const fs::path& file,
                             const std::vector<std::string>& adapters, WithHash hash,
                             const Globals& globals) {
  std::optional<model::ModelFiles> files;
  refusal_of([&] { files = model::read_model_files(file); });
  const bool is_known = files.has_value() && files->kind != model::ModelKind::kOther;
  return is_known ? inspect_folder(name, file, adapters, hash, globals)
                  : inspect_other_gguf(name, file, globals);
}

std::string describe_kind(model::ProjectorKind kind) {
  switch (kind) {
    case model::ProjectorKind::kMlp: return "linear layers";
    case model::ProjectorKind::kPerceiverResampler: return "a Perceiver resampler";
    case model::ProjectorKind::kCAbstractor: return "a C-Abstractor";
  }
  return "?";
}

ModelInspection inspect_weight_file(const std::string& name) {
  const fs::path path(name);
  if (path.filename() == "adapter_model.safetensors") {
    return inspect_adapter(name, path.parent_path());
  }
  ModelReport report(name);
  std::optional<model::ProjectorSummary> projector;
  std::optional<Error> refusal = refusal_of([&] { projector = model::read_projector_file(path); });
  if (projector.has_value()) {
    report_kind("projector", describe_kind(projector->kind) + ", for model.projector of a preset",
                report);
    report_projector(*projector, report);
  } else if (!refusal.has_value()) {
    report_kind("weights", "weights without their configuration", report);
    report_files(model::read_weight_files(path), report);
    refusal = Error(ErrorCode::kBadModel,
                    name + ": is a file; a model is a folder with config.json and *.safetensors");
  }
  report_refusal(refusal, report);
  return finish(report, refusal);
}

// The locations with which `run --model` finds a model.
config::Locations locations_of(const Globals& globals) {
  return model_locations(PresetFlags().preset, globals.locations, detect_machine());
}

}  // namespace

ModelInspection inspect_model(const std::string& name, const std::vector<std::string>& adapters,
                              WithHash hash, const Globals& globals) {
  if (name.ends_with(".safetensors")) return inspect_weight_file(name);
  fs::path place;
  const std::optional<Error> absent =
      refusal_of([&] { place = config::find_named_model(name, locations_of(globals)); });
  if (name.ends_with(".gguf")) {
    return inspect_gguf(name, absent.has_value() ? fs::path(name) : place, adapters, hash, globals);
  }
  if (absent.has_value()) return inspect_absent(name, *absent, globals);
  return inspect_folder(name, place, adapters, hash, globals);
}

bool is_model_name(const std::string& name, const Globals& globals) {
  if (plan::find_known_use(name).has_value()) return true;
  if (config::find_model_place(name, locations_of(globals)).has_value()) return true;
  if (!config::is_hub_name(name)) return false;
  return !pipeline::claims_to_be_video(name) && !is_folder(name.substr(0, name.find('/')));
}

}  // namespace caption::cli
