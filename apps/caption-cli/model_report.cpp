#include "model_report.h"

#include "base/counted.h"
#include "base/display_width.h"
#include "base/figures.h"
#include "base/join.h"
#include "base/units.h"
#include "config/choices.h"
#include "config/fields.h"
#include "plan/kv_dtype_name.h"
#include "records/file_name.h"

namespace caption::cli {
namespace {

constexpr std::size_t kNameWidth = 12;

std::string si(std::int64_t count) { return format_si(static_cast<double>(count)); }

std::string dtype_option(weights::WeightFormat format) {
  return std::string(config::option_name(format));
}

std::string size_text(const model::FrameSize& size) {
  return std::to_string(size.width_px) + "x" + std::to_string(size.height_px);
}

void add_files(const model::WeightFiles& files, JsonWriter& json) {
  json.add("files", std::ssize(files.paths)).add("bytes", files.size_bytes);
  json.begin_object("dtypes");
  for (const weights::StoredDType& dtype : files.dtypes) json.add(dtype.name, dtype.size_bytes);
  json.end_object();
}

std::string files_text(const model::WeightFiles& files) {
  std::vector<std::string> dtypes;
  for (const weights::StoredDType& dtype : files.dtypes) {
    dtypes.push_back(dtype.name + (files.dtypes.size() == 1
                                       ? std::string()
                                       : " " + format_bytes(dtype.size_bytes)));
  }
  return format_bytes(files.size_bytes) + " in " + counted(std::ssize(files.paths), "file") + ", " +
         join(dtypes);
}

// Why a plan does not fit, in few words.
std::string short_reason(const plan::Plan& plan) {
  const plan::PlanInput& input = plan.input;
  const std::string dtype = dtype_option(input.weights);
  switch (plan.refusal) {
    case plan::Refusal::kLength: return "clips too long for the model";
    case plan::Refusal::kBeams:
      return counted(input.num_beams, "beam") + " for max_num_seqs " +
             std::to_string(input.max_num_seqs);
    case plan::Refusal::kGivenPages:
      return "kv_cache_bytes " + std::to_string(input.kv_cache_bytes.value_or(0)) +
             " too small for the KV pages of a clip";
    case plan::Refusal::kWeights:
      return "weights of " + format_bytes(plan.weight_bytes) + " in " + dtype + " for " +
             format_bytes(plan.usable_bytes) + " of memory";
    case plan::Refusal::kPages: return "no room for KV pages beside weights in " + dtype;
    case plan::Refusal::kNone: break;
  }
  return {};
}

}  // namespace

ModelReport::ModelReport(const std::string& name) : text_(records::escape_file_name(name) + "\n") {
  json_.begin_object().add("name", name);
}

void ModelReport::line(const std::string& name, const std::string& value) {
  text_ += "  " + name + std::string(name.size() < kNameWidth ? kNameWidth - name.size() : 1, ' ') +
           printable(value) + "\n";
}

std::string ModelReport::to_json() const {
  JsonWriter json = json_;
  return json.end_object().text() + "\n";
}

void report_parameters(const model::Blueprint& blueprint, ModelReport& report) {
  const model::ParameterCounts counts = model::count_parameters(blueprint);
  const std::int64_t text =
      counts.embedding + counts.lm_head + counts.projections + counts.text_other;
  std::vector<std::string> parts;
  if (counts.tower > 0) parts.push_back("tower " + si(counts.tower));
  if (counts.projector > 0) parts.push_back("projector " + si(counts.projector));
  if (text > 0) parts.push_back("text " + si(text));
  report.line("parameters",
              si(counts.total()) + (parts.size() > 1 ? ": " + join(parts) : std::string()));
  report.json()
      .begin_object("parameters")
      .add("total", counts.total())
      .add("tower", counts.tower)
      .add("projector", counts.projector)
      .add("text", text)
      .end_object();
}

void report_decoder(const model::DecoderSpec& spec, ModelReport& report) {
  report.line("decoder",
              counted(spec.num_layers, "layer") + " of " + std::to_string(spec.hidden) + ", " +
                  counted(spec.num_heads, "head") + " (" + std::to_string(spec.num_kv_heads) +
                  " of keys) of " + std::to_string(spec.head_dim) + ", vocabulary " +
                  std::to_string(spec.vocab) + ", " + counted(spec.max_positions, "position"));
  report.json()
      .begin_object("decoder")
      .add("layers", spec.num_layers)
      .add("hidden", spec.hidden)
      .add("heads", spec.num_heads)
      .add("kv_heads", spec.num_kv_heads)
      .add("head_dim", spec.head_dim)
      .add("vocabulary", spec.vocab)
      .add("positions", spec.max_positions)
      .end_object();
}

void report_files(const model::WeightFiles& files, ModelReport& report) {
  report.line("files", files_text(files));
  report.json().begin_object("weights");
  add_files(files, report.json());
  report.json().end_object();
}

void report_tokenizer(const text::Tokenizer& tokenizer, std::int64_t vocab, ModelReport& report) {
  const std::int64_t num_ids = tokenizer.vocab_size();
  report.line("tokenizer",
              tokenizer.kind() + ", " + counted(num_ids, "token") +
                  (vocab != num_ids ? " for " + std::to_string(vocab) + " rows of the embedding"
                                    : std::string()));
  report.json()
      .begin_object("tokenizer")
      .add("kind", tokenizer.kind())
      .add("vocabulary", num_ids)
      .end_object();
}

void report_vision(const model::VisionSpec& vision, std::int64_t num_frames, ModelReport& report) {
  const bool is_dynamic = vision.image_px == 0;
  model::ClipShape clip = {.num_frames = num_frames};
  if (!is_dynamic) clip.frame = {.width_px = vision.image_px, .height_px = vision.image_px};
  const std::int64_t num_tokens = model::num_vision_tokens(vision, clip);
  std::string text =
      counted(num_frames, "frame") + " of " + size_text(clip.frame) +
      " pixels: " + counted(num_tokens, "vision token") + ", " +
      format_number(static_cast<double>(num_tokens) / static_cast<double>(num_frames)) + " a frame";
  if (is_dynamic) text += "; frames keep about their size, so films of other sizes differ";
  report.line("vision", text);
  report.json()
      .begin_object("vision")
      .add("frames", num_frames)
      .add("width", clip.frame.width_px)
      .add("height", clip.frame.height_px)
      .add("keeps_size", is_dynamic)
      .add("tokens", num_tokens)
      .end_object();
}

void report_generation(const model::GenerationConfig& config, ModelReport& report) {
  if (config.file.empty()) return;
  config::Preset preset;
  const std::set<std::string> taken = config::apply_generation_config(preset, config);
  std::vector<std::string> settings;
  report.json().begin_object("generation");
  for (const config::FieldValue& field : config::list_values(preset)) {
    if (!taken.contains(field.key)) continue;
    const std::string name = field.key.substr(field.key.find('.') + 1);
    settings.push_back(name + " " + field.value);
    report.json().add(name, field.value);
  }
  report.json().end_object();
  for (const std::string& key : config.unsupported) settings.push_back(key + " left out");
  report.line("generation", settings.empty() ? "nothing that a run uses" : join(settings));
}

void report_adapters(const std::vector<model::AdapterSummary>& adapters, ModelReport& report) {
  report.json().begin_list("adapters");
  for (const model::AdapterSummary& adapter : adapters) {
    const std::string ranks =
        (adapter.min_rank == adapter.max_rank ? "" : std::to_string(adapter.min_rank) + " to ") +
        std::to_string(adapter.max_rank);
    report.line("adapter", (adapter.name.empty() ? "" : adapter.name + ": ") +
                               records::escape_file_name(adapter.folder.string()) + ", " +
                               counted(adapter.num_modules, "module") + ", rank " + ranks);
    report.json()
        .begin_object()
        .add("folder", adapter.folder.string())
        .add("name", adapter.name)
        .add("modules", adapter.num_modules)
        .add("min_rank", adapter.min_rank)
        .add("max_rank", adapter.max_rank)
        .end_object();
  }
  report.json().end_list();
}

void report_adapter_files(const model::AdapterFiles& adapter, ModelReport& report) {
  report.line("base", adapter.base_model.empty() ? "not named" : adapter.base_model);
  report.line("rank", std::to_string(adapter.rank) + ", alpha " + format_number(adapter.alpha) +
                          (adapter.is_rank_stabilised ? ", rslora" : ""));
  report.line("modules", std::to_string(adapter.num_modules) + ": " + join(adapter.modules));
  report.line("parameters", si(adapter.weights.num_parameters));
  report.line("files", files_text(adapter.weights));
  JsonWriter& json = report.json();
  json.add("base", adapter.base_model)
      .add("rank", adapter.rank)
      .add("alpha", adapter.alpha)
      .add("rslora", adapter.is_rank_stabilised)
      .add("modules", adapter.num_modules)
      .begin_list("module_names");
  for (const std::string& module : adapter.modules) json.add_item(module);
  json.end_list().add("parameters", adapter.weights.num_parameters).begin_object("weights");
  add_files(adapter.weights, json);
  json.end_object();
}

void report_projector(const model::ProjectorSummary& projector, ModelReport& report) {
  std::vector<std::string> shapes;
  for (const Shape& shape : projector.layers) {
    shapes.push_back(std::to_string(shape[1]) + " to " + std::to_string(shape[0]));
  }
  if (!shapes.empty()) {
    report.line("layers", std::to_string(shapes.size()) + ": " + join(shapes));
  }
  report.line("parameters", si(projector.weights.num_parameters));
  report.line("files", files_text(projector.weights));
  report.json().begin_list("layers");
  for (const std::string& shape : shapes) report.json().add_item(shape);
  report.json().end_list().add("parameters", projector.weights.num_parameters);
  report.json().begin_object("weights");
  add_files(projector.weights, report.json());
  report.json().end_object();
}

void report_gguf(const weights::GgufFile& gguf, ModelReport& report) {
  const std::string architecture = gguf.metadata().get_string("general.architecture", "");
  const std::string title = gguf.metadata().get_string("general.name", "");
  report.line("holds", (architecture.empty() ? "an unnamed architecture" : architecture) +
                           (title.empty() ? "" : ", " + title));
  report.line("parameters",
              si(gguf.num_parameters()) + " in " + counted(std::ssize(gguf.tensors()), "tensor"));
  report.line("files", format_bytes(gguf.size_bytes()) + " in " +
                           counted(std::ssize(gguf.files()), "file") + ", GGUF version " +
                           std::to_string(gguf.version()));
  report.json()
      .add("architecture", architecture)
      .add("title", title)
      .add("parameters", gguf.num_parameters())
      .add("tensors", std::ssize(gguf.tensors()))
      .add("bytes", gguf.size_bytes());
}

void report_refusal(const std::optional<Error>& refusal, ModelReport& report) {
  report.line("runs", refusal.has_value() ? std::string("no: ") + refusal->what() : "yes");
  report.json().add("runs", !refusal.has_value());
  if (refusal.has_value()) report.json().add("refusal", refusal->what());
}

void report_presets(const std::vector<PresetFit>& presets, bool is_runnable, ModelReport& report) {
  report.json().begin_list("presets");
  bool is_first = true;
  for (const PresetFit& preset : presets) {
    const plan::Plan& plan = preset.plan;
    const bool runs = plan.fits && is_runnable && preset.missing.empty() && !preset.lacks_codes &&
                      !preset.rounds_codes;
    std::string text;
    if (!plan.fits) {
      text = "does not fit: " + short_reason(plan);
    } else {
      text = (runs ? "fits, " : "would fit, ") + counted(plan.num_concurrent, "clip") +
             " at a time in " + dtype_option(plan.input.weights);
      if (preset.lacks_codes) {
        text += preset.has_codes ? ", which `quantize` makes of the model that this one was made of"
                                 : ", which `quantize` makes of it";
      } else if (preset.rounds_codes) {
        text += ", which would round its codes a second time (--requantize true)";
      }
    }
    if (!preset.missing.empty()) text += "; this build lacks " + preset.missing;
    const bool has_card = plan.input.device == plan::PlanDevice::kCard;
    report.line(is_first ? "presets" : "",
                pad_right(preset.name, 6) + (has_card ? plan.input.device_name + ": " : "") + text);
    is_first = false;
    report.json()
        .begin_object()
        .add("name", preset.name)
        .add("fits", plan.fits)
        .add("runs", runs)
        .add("concurrent_clips", plan.num_concurrent)
        .add("note", text)
        .end_object();
  }
  report.json().end_list();
}

void report_bytes(const Context& context, const model::Blueprint& blueprint, ModelReport& report) {
  std::vector<std::string> sizes;
  report.json().begin_object("bytes_by_dtype");
  for (const weights::WeightFormat format : weights::all_weight_formats()) {
    if (!weights::can_be_held(format)) continue;
    const std::int64_t bytes = model::placed_bytes(context, blueprint, format);
    sizes.push_back(dtype_option(format) + " " + format_bytes(bytes));
    report.json().add(dtype_option(format), bytes);
  }
  report.json().end_object();
  report.line("weights", join(sizes));
  if (!blueprint.text.has_value()) return;
  sizes.clear();
  report.json().begin_object("kv_bytes_per_token");
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kI8}) {
    const std::int64_t bytes = model::kv_token_bytes(*blueprint.text, dtype);
    const std::string name(plan::kv_dtype_name(dtype));
    sizes.push_back(name + " " + std::to_string(bytes) + " B");
    report.json().add(name, bytes);
  }
  report.json().end_object();
  report.line("KV a token", join(sizes));
}

void report_plan(const plan::Plan& plan, ModelReport& report) {
  const plan::PlanInput& input = plan.input;
  const std::string how = "preset " + input.preset + ", " + dtype_option(input.weights) + ", " +
                          counted(input.num_frames, "frame") + ": ";
  report.json().begin_object("here").add("preset", input.preset).add("fits", plan.fits);
  if (plan.fits) {
    report.line("here", how + counted(plan.num_concurrent, "clip") + " at a time; at most " +
                            format_number(plan.decode_tokens_per_s) + " tok/s and " +
                            format_number(1 / plan.videos_per_s) + " s a clip of " +
                            counted(input.output_tokens, "token"));
    report.json()
        .add("concurrent_clips", plan.num_concurrent)
        .add("tokens_per_s", plan.decode_tokens_per_s)
        .add("seconds_per_clip", 1 / plan.videos_per_s)
        .add("total_bytes", plan.total_bytes);
  } else {
    report.line("here", how + plan.limit_reason);
    report.json().add("reason", plan.limit_reason);
  }
  report.json().end_object();
}

}  // namespace caption::cli
