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
#include "model/internal/parts.h"
#include "model/internal/preprocessor_config.h"
#include "model/internal/prompt.h"
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

// Indices of the weight files of a composed model (ParameterGroup::source).
constexpr std::int32_t kVisionSource = 0;
constexpr std::int32_t kProjectorSource = 1;
constexpr std::int32_t kTextSource = 2;

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

struct ProjectorLayers {
  std::vector<std::string> stems;  // names without "weight", in order
  std::vector<LinearSpec> layers;
};

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Whether `a` comes before `b` when runs of digits count as numbers: "2." before "10.".
bool is_before(std::string_view a, std::string_view b) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::size_t i = 0;
  for (; i < std::min(a.size(), b.size()) && a[i] == b[i]; ++i) continue;
  // From the beginning of the number in which the names differ.
  while (i > 0 && is_digit(a[i - 1])) --i;
  const auto digits = [&](std::string_view name) {
    std::size_t end = i;
    while (end < name.size() && is_digit(name[end])) ++end;
    return end - i;
  };
  if (digits(a) != digits(b) && digits(a) > 0 && digits(b) > 0) return digits(a) < digits(b);
  return a < b;
}

// The names of a projector's layers differ between authors ("weight"; "0.weight" and "2.weight";
// "linear_1.weight" and "linear_2.weight"): matrices are linear layers in the order of their names,
// with a gelu between every two. A file with other tensors is refused.
ProjectorLayers read_projector(const weights::Checkpoint& file, std::int64_t vision_dim,
                               std::int64_t text_dim) {
  constexpr std::string_view kWeight = "weight";
  constexpr std::string_view kBias = "bias";
  ProjectorLayers found;
  std::vector<std::string> biases;
  for (const std::string& name : file.names()) {
    const bool is_matrix = name.ends_with(kWeight) && file.find(name)->shape().rank() == 2;
    const bool is_vector = name.ends_with(kBias) && file.find(name)->shape().rank() == 1;
    if (!is_matrix && !is_vector) {
      throw Error(ErrorCode::kUnavailable,
                  file.path().string() + ": tensor " + name +
                      " belongs to no linear layer; this build runs projectors of linear layers "
                      "with a gelu between every two");
    }
    const std::size_t suffix = is_matrix ? kWeight.size() : kBias.size();
    (is_matrix ? found.stems : biases).push_back(name.substr(0, name.size() - suffix));
  }
  for (const std::string& bias : biases) {
    if (contains(found.stems, bias)) continue;
    throw Error(ErrorCode::kBadModel,
                file.path().string() + ": tensor " + bias + "bias has no weight beside it");
  }
  if (found.stems.empty()) {
    throw Error(ErrorCode::kBadModel,
                file.path().string() + ": holds no linear layer, and so no projector");
  }
  std::sort(found.stems.begin(), found.stems.end(), is_before);
  std::int64_t in = vision_dim;
  for (const std::string& stem : found.stems) {
    const bool is_last = &stem == &found.stems.back();
    const std::int64_t out = is_last ? text_dim : file.find(stem + std::string(kWeight))->dim(0);
    found.layers.push_back({.out = out, .in = in, .has_bias = contains(biases, stem)});
    in = out;
  }
  return found;
}

// `projector` is null if its file does not exist; then linear-gelu-linear is assumed.
Blueprint make_blueprint(VisionSpec vision, const DecoderSpec& text, const ComposedSource& source,
                         const weights::Checkpoint* projector) {
  vision.num_layers = layers_to_run(vision, source.vision_feature_layer);
  vision.keeps_class_token = !source.drop_cls && vision.class_tokens > 0;
  vision.pool_stride = source.pool_stride;
  const ProjectorLayers layers =
      projector != nullptr ? read_projector(*projector, vision.hidden, text.hidden)
                           : ProjectorLayers{.stems = {"0.", "2."},
                                             .layers = {{.out = text.hidden, .in = vision.hidden},
                                                        {.out = text.hidden, .in = text.hidden}}};
  vision.projector = layers.layers;
  Blueprint blueprint;
  blueprint.name = source.vision.string() + " + " + source.llm.string();
  add_clip_tower(blueprint, vision, kVisionPrefixes, kVisionSource);
  add_projector(blueprint, vision, layers.stems, {""}, kProjectorSource);
  add_decoder(blueprint, text, kTextPrefixes, kHeadPrefixes, kTextSource);
  return blueprint;
}

}  // namespace

Blueprint compose_blueprint(const Blueprint& tower, const Blueprint& text,
                            const ComposedSource& source) {
  std::optional<weights::Checkpoint> projector;
  std::error_code ignored;
  if (std::filesystem::exists(source.projector, ignored)) {
    projector.emplace(weights::Checkpoint::open(source.projector));
  }
  Blueprint blueprint = make_blueprint(tower.vision.value(), text.text.value(), source,
                                       projector ? &*projector : nullptr);
  blueprint.set_stored(tower.groups.front().stored, kVisionSource);
  blueprint.set_stored(text.groups.front().stored, kTextSource);
  if (projector) {
    blueprint.set_stored(projector->find(projector->names().front())->dtype(), kProjectorSource);
  }
  return blueprint;
}

std::unique_ptr<CaptionModel> open_composed(const Context& context, const ComposedSource& source,
                                            weights::WeightFormat format,
                                            const DigestCache& digests,
                                            const std::vector<AdapterSource>& adapters) {
  PromptTemplate prompt = parse_template(source.prompt);
  Parts parts;
  parts.context = context;
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

  parts.settings = source.prompt + "|" + std::to_string(source.vision_feature_layer) + "|" +
                   std::to_string(source.pool_stride) + (source.drop_cls ? "|drop" : "|keep");
  const VisionSpec vision = read_vision_spec(source.vision);
  // SigLIP's processor has other class defaults than CLIP's.
  parts.preprocess =
      read_preprocess_spec(source.vision, vision.class_tokens > 0 ? llava_next_video_preprocessing()
                                                                  : siglip_preprocessing());
  const auto open = [](const std::filesystem::path& path) {
    return std::make_unique<weights::Checkpoint>(weights::Checkpoint::open(path));
  };
  std::vector<std::unique_ptr<weights::Source>> sources;
  sources.push_back(open(source.vision));
  auto projector = open(source.projector);
  const Blueprint blueprint = make_blueprint(vision, text.spec, source, projector.get());
  sources.push_back(std::move(projector));
  sources.push_back(open(source.llm));
  place_parts(parts, blueprint, std::move(sources), format);
  parts.tokenizer = text::open_tokenizer(source.llm);
  parts.generation = read_generation_config(source.llm);
  parts.eos_ids = parts.generation.eos_ids.empty() ? text.eos_ids : parts.generation.eos_ids;
  if (parts.eos_ids.empty() && parts.tokenizer->eos_id()) {
    parts.eos_ids = {*parts.tokenizer->eos_id()};
  }
  return std::make_unique<Composed>(std::move(parts), std::move(prompt));
}

}  // namespace caption::model
