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
#include "model/internal/hub_model.h"
#include "model/internal/parts.h"
#include "model/internal/preprocessor_config.h"
#include "model/internal/projector.h"
#include "model/internal/prompt.h"
#include "model/internal/tensor_names.h"
#include "model/internal/vision_config.h"
#include "model/read_blueprint.h"
#include "model/vit_blueprint.h"
#include "weights/checkpoint.h"

namespace caption::model {
namespace {

using namespace std::string_view_literals;

const std::vector<std::string> kVisionPrefixes = {"vision_model.", "",
                                                  "vision_tower.vision_model."};
const std::vector<std::string> kTextPrefixes = {"model.", ""};
const std::vector<std::string> kHeadPrefixes = {""};

constexpr auto kVisionSource = static_cast<std::int32_t>(ComposedFile::kVision);
constexpr auto kProjectorSource = static_cast<std::int32_t>(ComposedFile::kProjector);
constexpr auto kTextSource = static_cast<std::int32_t>(ComposedFile::kText);

constexpr std::string_view kVideoSlot = "{video}";
constexpr std::string_view kPromptSlot = "{prompt}";

// The text before or after the vision tokens: fixed, or with the user's words between fixed parts.
struct TemplateSide {
  std::string before;
  std::string after;
  bool has_user_words = false;
};

struct PromptTemplate {
  TemplateSide before_video;
  TemplateSide after_video;
};

TemplateSide parse_side(std::string_view text) {
  const std::size_t slot = text.find(kPromptSlot);
  if (slot == std::string_view::npos) return {.before = std::string(text), .after = ""};
  return {.before = std::string(text.substr(0, slot)),
          .after = std::string(text.substr(slot + kPromptSlot.size())),
          .has_user_words = true};
}

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + part.size())) {
    ++found;
  }
  return found;
}

PromptTemplate parse_template(const std::string& text) {
  if (count(text, kVideoSlot) != 1 || count(text, kPromptSlot) > 1) {
    throw Error(ErrorCode::kBadPreset,
                "model.prompt: \"" + text +
                    "\" must hold {video} once and {prompt} at most once, for example "
                    "\"{video}{prompt}\"");
  }
  const std::size_t video = text.find(kVideoSlot);
  return {.before_video = parse_side(std::string_view(text).substr(0, video)),
          .after_video = parse_side(std::string_view(text).substr(video + kVideoSlot.size()))};
}

class Composed final : public PartsCaptionModel {
 public:
  Composed(Parts parts, PromptTemplate prompt)
      : PartsCaptionModel(std::move(parts)),
        template_(std::move(prompt)),
        placeholder_(choose_placeholder()) {}

  // The two sides are tokenised separately, since vision tokens are not text. The tokens that the
  // tokenizer adds to a text occur once, around the whole.
  PromptIds build_prompt(std::string_view user_prompt, const ClipShape& clip) const override {
    std::vector<std::int32_t> ids =
        encode(template_.before_video, user_prompt, {.beginning = true, .end = false});
    PromptIds prompt = expand_placeholder({placeholder_}, placeholder_, vision_tokens(clip));
    const auto shift = static_cast<std::int32_t>(ids.size());
    for (std::int32_t& position : prompt.vision_positions) position += shift;
    ids.insert(ids.end(), prompt.ids.begin(), prompt.ids.end());
    const std::vector<std::int32_t> after =
        encode(template_.after_video, user_prompt, {.beginning = false, .end = true});
    ids.insert(ids.end(), after.begin(), after.end());
    prompt.ids = std::move(ids);
    return prompt;
  }

  // The parts are put together before generate(), which is passed inputs_embeds alone.
  bool penalties_count_prompt() const override { return false; }
  std::string_view family() const override { return "composed"; }

 private:
  std::vector<std::int32_t> encode(const TemplateSide& side, std::string_view user_prompt,
                                   text::AddedEnds ends) const {
    if (!side.has_user_words) {
      return tokenizer().encode(side.before, text::AddedTokens::kRecognise, ends);
    }
    return encode_prompt(
        tokenizer(), {.head = side.before, .glue_before = "", .glue_after = "", .tail = side.after},
        user_prompt, ends);
  }

  // Returns the id used in the place of a vision token. It is never looked up in the embedding, but
  // it counts as a token of the prompt in repetition penalties, so it should be one that captions
  // avoid.
  std::int32_t choose_placeholder() const {
    for (const std::string_view token :
         {"<|video_pad|>"sv, "<video>"sv, "<|image_pad|>"sv, "<image>"sv, "<unk>"sv}) {
      if (const auto id = tokenizer().find_token(token)) return *id;
    }
    return tokenizer().bos_id().value_or(0);
  }

  PromptTemplate template_;
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
  PromptTemplate prompt = parse_template(source.prompt);
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
