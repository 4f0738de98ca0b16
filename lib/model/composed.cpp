// Composed models: a CLIP or SigLIP tower, a projector and a language model that were trained
// separately and are named by path. The preset's template gives the text around the vision tokens;
// nothing is added to it.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "base/error.h"
#include "base/join.h"
#include "base/json.h"
#include "base/log.h"
#include "model/internal/composed_prompt.h"
#include "model/internal/gguf_errors.h"
#include "model/internal/hub_model.h"
#include "model/internal/model_folder.h"
#include "model/internal/parts.h"
#include "model/internal/preprocessor_config.h"
#include "model/internal/projector.h"
#include "model/internal/tensor_names.h"
#include "model/internal/vision_config.h"
#include "model/model_files.h"
#include "model/read_blueprint.h"
#include "model/vit_blueprint.h"
#include "weights/open_source.h"

namespace caption::model {
namespace {

const std::vector<std::string> kVisionPrefixes = {"vision_model.", "",
                                                  "vision_tower.vision_model."};
const std::vector<std::string> kTextPrefixes = {"model.", ""};
const std::vector<std::string> kHeadPrefixes = {""};

constexpr auto kVisionSource = static_cast<std::int32_t>(ComposedFile::kVision);
constexpr auto kProjectorSource = static_cast<std::int32_t>(ComposedFile::kProjector);
constexpr auto kTextSource = static_cast<std::int32_t>(ComposedFile::kText);

class Composed final : public PartsCaptionModel {
 public:
  Composed(Parts parts, ComposedPrompt prompt)
      : PartsCaptionModel(std::move(parts)),
        prompt_(std::move(prompt)),
        placeholder_(choose_placeholder(tokenizer())) {}

  PromptIds build_prompt(const Conversation& conversation, const ClipShape& clip) const override {
    return prompt_.build(tokenizer(), conversation, clip, placeholder_,
                         [this](const ClipShape& shape) { return vision_tokens(shape); });
  }

  std::string default_prompt() const override {
    return prompt_.takes_prompt() ? PartsCaptionModel::default_prompt() : "";
  }
  // The parts are put together before generate(), which is passed inputs_embeds alone.
  bool penalties_count_prompt() const override { return false; }
  std::string_view family() const override { return "composed"; }

 private:
  ComposedPrompt prompt_;
  std::int32_t placeholder_;
};

// What a whole CLIP or SigLIP holds besides its vision tower (modeling_clip.py,
// modeling_siglip.py).
void ignore_text_tower(Blueprint& blueprint) {
  for (const char* const name :
       {"text_model.", "text_projection.", "visual_projection.", "logit_scale", "logit_bias"}) {
    blueprint.ignored.push_back({.source = kVisionSource, .prefix = name});
  }
}

// The layers are chosen by the preset, so that the file of the tower is not at fault.
void require_feature_layers(const VisionSpec& tower, const ComposedSource& source) {
  for (const std::int64_t layer : source.vision_feature_layers) {
    const std::int64_t first = -tower.num_layers - 1;
    if (layer >= first && layer <= tower.num_layers) continue;
    throw Error(ErrorCode::kBadPreset,
                "model.vision_feature_layer " + std::to_string(layer) +
                    " does not exist: the tower of " + source.vision.string() + " has " +
                    counted(tower.num_layers, "layer") + "; choose from " + std::to_string(first) +
                    " to " + std::to_string(tower.num_layers));
  }
}

// `projector` is null if its file does not exist; then two linear layers are assumed.
Blueprint make_blueprint(VisionSpec vision, const DecoderSpec& text, const ComposedSource& source,
                         const weights::Source* projector) {
  require_feature_layers(vision, source);
  set_feature_layers(vision, source.vision_feature_layers, source.vision.string());
  vision.keeps_class_token = !source.drop_cls && vision.class_tokens > 0;
  vision.pool_stride = source.pool_stride;
  std::optional<ProjectorFile> file;
  if (projector != nullptr) file.emplace(*projector);
  const ProjectorNames names =
      read_projector(file ? &*file : nullptr, source.projector_options, text.hidden, vision);
  Blueprint blueprint;
  blueprint.name = source.vision.string() + " + " + source.llm.string();
  add_clip_tower(blueprint, vision, kVisionPrefixes, kVisionSource);
  ignore_text_tower(blueprint);
  add_found_projector(blueprint, vision, names, kProjectorSource);
  add_decoder(blueprint, text, kTextPrefixes, kHeadPrefixes, kTextSource);
  return blueprint;
}

// Average pooling takes whole windows only.
void warn_of_cut_grid(const VisionSpec& tower, std::int64_t stride) {
  const std::int64_t edge = tower.grid();
  if (stride < 1 || stride > edge || edge % stride == 0) return;
  std::vector<std::string> divisors;
  for (std::int64_t i = 1; i <= edge; ++i) {
    if (edge % i == 0) divisors.push_back(std::to_string(i));
  }
  const std::int64_t rest = edge % stride;
  const std::string last =
      rest == 1 ? "last row and column" : "last " + std::to_string(rest) + " rows and columns";
  log_warning("model", "model.pooling is " + std::to_string(stride) + ": the " + last +
                           " of the tower's grid of " + std::to_string(edge) + "x" +
                           std::to_string(edge) +
                           " patches fill no window and are left out, as avg_pool2d of torch "
                           "does; strides without a rest are " +
                           join(divisors));
}

// Describes the options of a composed model that change its captions; different options have
// different descriptions.
std::string describe_settings(const ComposedSource& source) {
  std::string text;
  const auto add = [&](const char* key, const std::string& value) {
    text += std::string(key) + " " + json_quote(value) + "\n";
  };
  add("prompt", source.prompt);
  for (const std::int64_t layer : source.vision_feature_layers) {
    add("feature_layer", std::to_string(layer));
  }
  add("pooling", std::to_string(source.pool_stride));
  add("class_token", source.drop_cls ? "dropped" : "kept");
  const ProjectorOptions& options = source.projector_options;
  if (options.activation) add("activation", std::to_string(static_cast<int>(*options.activation)));
  add("tokens", std::to_string(options.frame_tokens()));
  add("head_dim", std::to_string(options.head_dim));
  for (const std::string& entry : source.tensor_names) add("tensor_names", entry);
  add("system_template", source.system_template);
  add("example_end", source.example_end);
  return text;
}

DType stored_dtype(weights::Source& source, const std::string& tensor) {
  const DType dtype = source.read(tensor, source.shape(tensor).value()).dtype();
  source.release(tensor);
  return dtype;
}

// Whether the weights may be codes, of which a plan needs the files' headers.
bool has_codes(const std::filesystem::path& folder) {
  return is_gguf_model(folder) || weights::is_quantised_folder(folder);
}

}  // namespace

Blueprint compose_blueprint(const Blueprint& tower, const Blueprint& text,
                            const ComposedSource& source) {
  ComposedSources sources;
  std::error_code ignored;
  DType stored = DType::kF32;
  const bool has_file = std::filesystem::exists(source.projector, ignored);
  if (has_file) {
    auto projector = ModelFolder(source.projector, ModelPart::kProjector).open_weights();
    const std::vector<std::string> names = projector->names();
    if (!names.empty()) stored = stored_dtype(*projector, names.front());
    sources[kProjectorSource] = std::move(projector);
  }
  if (has_codes(source.vision)) {
    sources[kVisionSource] = ModelFolder(source.vision, ModelPart::kVision).open_weights();
  }
  if (has_codes(source.llm)) {
    sources[kTextSource] = ModelFolder(source.llm, ModelPart::kText).open_weights();
  }
  sources = rename_tensors(std::move(sources), source.tensor_names);
  Blueprint blueprint = make_blueprint(tower.vision.value(), text.text.value(), source,
                                       sources[kProjectorSource].get());
  blueprint.set_stored(tower.groups.front().stored, kVisionSource);
  blueprint.set_stored(text.groups.front().stored, kTextSource);
  if (has_file) blueprint.set_stored(stored, kProjectorSource);
  if (has_file) find_stored_codes(blueprint, *sources[kProjectorSource], kProjectorSource);
  if (sources[kVisionSource]) find_stored_codes(blueprint, *sources[kVisionSource], kVisionSource);
  if (sources[kTextSource]) find_stored_codes(blueprint, *sources[kTextSource], kTextSource);
  return blueprint;
}

std::unique_ptr<CaptionModel> open_composed(const Context& context, const ComposedSource& source,
                                            weights::WeightFormat format,
                                            const OpenOptions& options) {
  // Before anything is read of the folders: check_unchanged() finds what is written from here on.
  std::vector<ConfigFolder> configs;
  for (const std::filesystem::path& folder : {source.vision, source.projector, source.llm}) {
    configs.push_back(read_config_folder(folder));
  }
  ComposedPrompt prompt(source);
  const ModelFolder llm(source.llm, ModelPart::kText);
  Parts parts = begin_parts(context, std::move(configs), options);
  start_tokenizer(llm, parts);
  add_inner_adapter(parts, source.vision, kVisionSource);
  add_inner_adapter(parts, source.projector, kProjectorSource);
  add_inner_adapter(parts, source.llm, kTextSource);
  add_adapters(parts, options.adapters);
  const ModelFolder tower(source.vision, ModelPart::kVision);
  const ModelFolder projector(source.projector, ModelPart::kProjector);
  const TextConfig text =
      with_gguf_words(llm, [&] { return parse_text_config(llm.require_config()); });

  parts.settings = describe_settings(source);
  const VisionSpec vision =
      with_gguf_words(tower, [&] { return parse_tower_config(tower.require_config()); });
  warn_of_cut_grid(vision, source.pool_stride);
  // SigLIP's processor has other class defaults than CLIP's.
  parts.preprocess = read_preprocess_spec(
      tower, vision.class_tokens > 0 ? llava_next_video_preprocessing() : siglip_preprocessing());
  ComposedSources files = rename_tensors(
      {tower.open_weights(), projector.open_weights(), llm.open_weights()}, source.tensor_names);
  Blueprint blueprint = make_blueprint(vision, text.spec, source, files[kProjectorSource].get());
  std::vector<std::unique_ptr<weights::Source>> sources;
  for (std::unique_ptr<weights::Source>& file : files) sources.push_back(std::move(file));
  place_hub_parts(llm, text, {std::move(blueprint), std::move(sources), format}, parts);
  return std::make_unique<Composed>(std::move(parts), std::move(prompt));
}

}  // namespace caption::model
