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

#include "base/error.h"
#include "model/internal/composed_prompt.h"
#include "model/internal/hub_model.h"
#include "model/internal/parts.h"
#include "model/internal/preprocessor_config.h"
#include "model/internal/projector.h"
#include "model/internal/tensor_names.h"
#include "model/internal/vision_config.h"
#include "model/read_blueprint.h"
#include "model/vit_blueprint.h"
#include "weights/checkpoint.h"

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

VisionSpec read_vision_spec(const std::filesystem::path& folder) {
  const JsonObject config = JsonObject::open(folder / "config.json", ErrorCode::kBadModel);
  reject_quantised(config);
  return parse_tower_config(config);
}

// What a whole CLIP or SigLIP holds besides its vision tower (modeling_clip.py,
// modeling_siglip.py).
void ignore_text_tower(Blueprint& blueprint) {
  for (const char* const name :
       {"text_model.", "text_projection.", "visual_projection.", "logit_scale", "logit_bias"}) {
    blueprint.ignored.push_back({.source = kVisionSource, .prefix = name});
  }
}

// `projector` is null if its file does not exist; then two linear layers are assumed.
Blueprint make_blueprint(VisionSpec vision, const DecoderSpec& text, const ComposedSource& source,
                         const weights::Source* projector) {
  set_feature_layers(vision, source.vision_feature_layers);
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

std::unique_ptr<weights::Source> open_weights(const std::filesystem::path& path) {
  return std::make_unique<weights::Checkpoint>(weights::Checkpoint::open(path));
}

// Describes the options of a composed model that change its captions.
std::string describe_settings(const ComposedSource& source) {
  std::string text = source.prompt;
  for (const std::int64_t layer : source.vision_feature_layers) text += "|" + std::to_string(layer);
  text += "|" + std::to_string(source.pool_stride) + (source.drop_cls ? "|drop" : "|keep");
  const ProjectorOptions& options = source.projector_options;
  text += "|" + std::to_string(options.activation ? static_cast<int>(*options.activation) : -1) +
          "|" + std::to_string(options.tokens) + "|" + std::to_string(options.head_dim);
  for (const std::string& entry : source.tensor_names) text += "|" + entry;
  for (const std::string& more : {source.system_template, source.example_end}) {
    if (!more.empty()) text += "|" + more;
  }
  return text;
}

}  // namespace

Blueprint compose_blueprint(const Blueprint& tower, const Blueprint& text,
                            const ComposedSource& source) {
  ComposedSources sources;
  std::error_code ignored;
  DType stored = DType::kF32;
  const bool has_file = std::filesystem::exists(source.projector, ignored);
  if (has_file) {
    auto projector =
        std::make_unique<weights::Checkpoint>(weights::Checkpoint::open(source.projector));
    const std::vector<std::string> names = projector->names();
    if (!names.empty()) stored = projector->find(names.front())->dtype();
    sources[kProjectorSource] = std::move(projector);
  }
  sources = rename_tensors(std::move(sources), source.tensor_names);
  Blueprint blueprint = make_blueprint(tower.vision.value(), text.text.value(), source,
                                       sources[kProjectorSource].get());
  blueprint.set_stored(tower.groups.front().stored, kVisionSource);
  blueprint.set_stored(text.groups.front().stored, kTextSource);
  if (has_file) blueprint.set_stored(stored, kProjectorSource);
  return blueprint;
}

std::unique_ptr<CaptionModel> open_composed(const Context& context, const ComposedSource& source,
                                            weights::WeightFormat format,
                                            const DigestCache& digests,
                                            const std::vector<AdapterSource>& adapters,
                                            Opening opening) {
  ComposedPrompt prompt(source);
  Parts parts;
  parts.context = context;
  parts.opening = opening;
  parts.digests = digests;
  for (const std::filesystem::path& folder : {source.vision, source.projector, source.llm}) {
    parts.configs.push_back(read_config_folder(folder));
  }
  add_inner_adapter(parts, source.vision, kVisionSource);
  add_inner_adapter(parts, source.projector, kProjectorSource);
  add_inner_adapter(parts, source.llm, kTextSource);
  add_adapters(parts, adapters);
  const JsonObject llm_config = JsonObject::open(source.llm / "config.json", ErrorCode::kBadModel);
  reject_quantised(llm_config);
  const TextConfig text = parse_text_config(llm_config);

  parts.settings = describe_settings(source);
  const VisionSpec vision = read_vision_spec(source.vision);
  // SigLIP's processor has other class defaults than CLIP's.
  parts.preprocess =
      read_preprocess_spec(source.vision, vision.class_tokens > 0 ? llava_next_video_preprocessing()
                                                                  : siglip_preprocessing());
  ComposedSources files = rename_tensors(
      {open_weights(source.vision), open_weights(source.projector), open_weights(source.llm)},
      source.tensor_names);
  const Blueprint blueprint =
      make_blueprint(vision, text.spec, source, files[kProjectorSource].get());
  std::vector<std::unique_ptr<weights::Source>> sources;
  for (std::unique_ptr<weights::Source>& file : files) sources.push_back(std::move(file));
  place_parts(parts, blueprint, std::move(sources), format);
  read_text_files(source.llm, text, parts);
  return std::make_unique<Composed>(std::move(parts), std::move(prompt));
}

}  // namespace caption::model
