// Composed models: a CLIP tower, a projector and a language model that were trained separately and
// are named by path. The preset's template gives the text around the vision tokens; nothing is
// added to it.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "model/internal/parts.h"
#include "model/internal/preprocessor_config.h"
#include "model/internal/prompt.h"

namespace caption::model {
namespace {

using namespace std::string_view_literals;

constexpr std::array kVisionPrefixes = {"vision_model."sv, ""sv, "vision_tower.vision_model."sv};
constexpr std::array kTextPrefixes = {"model."sv, ""sv};

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

  // The two sides are tokenised separately, since vision tokens are not text. <s>, if the tokenizer
  // has one, occurs once, at the beginning.
  PromptIds build_prompt(std::string_view user_prompt, std::int64_t num_frames) const override {
    std::vector<std::int32_t> ids = encode(template_.before_video, user_prompt);
    PromptIds prompt = expand_placeholder({placeholder_}, placeholder_, vision_tokens(num_frames));
    const auto shift = static_cast<std::int32_t>(ids.size());
    for (std::int32_t& position : prompt.vision_positions) position += shift;
    ids.insert(ids.end(), prompt.ids.begin(), prompt.ids.end());
    const std::vector<std::int32_t> after = encode(template_.after_video, user_prompt);
    const bool skips_bos = !after.empty() && tokenizer().bos_id() == after.front();
    ids.insert(ids.end(), after.begin() + (skips_bos ? 1 : 0), after.end());
    prompt.ids = std::move(ids);
    return prompt;
  }

  std::string_view family() const override { return "composed"; }

 private:
  std::vector<std::int32_t> encode(const TemplateSide& side, std::string_view user_prompt) const {
    if (!side.has_user_words) return tokenizer().encode(side.before);
    return encode_prompt(
        tokenizer(), {.head = side.before, .glue_before = "", .glue_after = "", .tail = side.after},
        user_prompt);
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

// Returns the vision_config of a complete CLIP model, or the root of a CLIPVisionModel.
ClipVisionConfig read_vision_config(const std::filesystem::path& folder) {
  const JsonObject config = JsonObject::open(folder / "config.json", ErrorCode::kBadModel);
  reject_quantised(config);
  if (config.get_string("model_type", "") != "clip") return parse_clip_vision_config(config);
  if (const auto vision = config.get_object("vision_config")) {
    return parse_clip_vision_config(*vision);
  }
  return parse_clip_vision_config(JsonObject::parse("{}", config.name(), ErrorCode::kBadModel));
}

// The names of a projector's layers differ between authors ("weight"; "0.weight" and "2.weight";
// "linear_1.weight" and "linear_2.weight"): one matrix is a linear layer, two are
// linear-gelu-linear in the order of their names. Any other file is refused.
Projector load_projector(WeightStore& store, std::int64_t vision_dim, std::int64_t text_dim) {
  constexpr std::string_view kWeight = "weight";
  constexpr std::string_view kBias = "bias";
  const weights::Checkpoint& file = store.checkpoint();
  std::vector<std::string> stems;  // names without "weight", sorted
  std::vector<std::string> biases;
  for (const std::string& name : file.names()) {
    const bool matrix = name.ends_with(kWeight) && file.find(name)->shape().rank() == 2;
    const bool vector = name.ends_with(kBias) && file.find(name)->shape().rank() == 1;
    if (!matrix && !vector) {
      throw Error(ErrorCode::kUnavailable,
                  file.path().string() + ": tensor " + name +
                      " belongs to no linear layer; this build runs projectors that are linear or "
                      "linear-gelu-linear");
    }
    const std::size_t suffix = matrix ? kWeight.size() : kBias.size();
    (matrix ? stems : biases).push_back(name.substr(0, name.size() - suffix));
  }
  for (const std::string& bias : biases) {
    if (std::find(stems.begin(), stems.end(), bias) == stems.end()) {
      throw Error(ErrorCode::kBadModel,
                  file.path().string() + ": tensor " + bias + "bias has no weight beside it");
    }
  }
  if (stems.empty() || stems.size() > 2) {
    throw Error(ErrorCode::kUnavailable,
                file.path().string() + ": holds " + std::to_string(stems.size()) +
                    " linear layers; this build runs projectors of one or two");
  }
  const auto load = [&](const std::string& stem, std::int64_t out, std::int64_t in) {
    LinearWeights linear;
    linear.weight = store.require_matrix(stem + std::string(kWeight), {out, in});
    if (std::find(biases.begin(), biases.end(), stem) != biases.end()) {
      linear.bias = store.require(stem + std::string(kBias), {out});
    }
    return linear;
  };
  if (stems.size() == 1)
    return {.linear_1 = load(stems[0], text_dim, vision_dim), .linear_2 = std::nullopt};
  const std::int64_t inner = file.find(stems[0] + std::string(kWeight))->dim(0);
  return {.linear_1 = load(stems[0], inner, vision_dim),
          .linear_2 = load(stems[1], text_dim, inner),
          .activation = Activation::kGelu};
}

std::unique_ptr<VisionEncoder> load_encoder(Parts& parts, const ComposedSource& source,
                                            WeightType type, std::int64_t text_dim) {
  const ClipVisionConfig clip = read_vision_config(source.vision);
  parts.stores.push_back(
      std::make_unique<WeightStore>(weights::Checkpoint::open(source.vision), type));
  WeightStore& vision = *parts.stores.back();
  parts.stores.push_back(
      std::make_unique<WeightStore>(weights::Checkpoint::open(source.projector), type));
  WeightStore& projector = *parts.stores.back();
  const std::string prefix = vision.find_prefix(kVisionPrefixes, "embeddings.class_embedding");
  ClipVisionTower tower(vision, prefix, clip, layers_to_run(clip, source.vision_feature_layer));
  const TokenSelection selection = {.class_token = source.drop_cls
                                                       ? TokenSelection::ClassToken::kDrop
                                                       : TokenSelection::ClassToken::kKeep,
                                    .pooling = kernels::Pooling::kMean,
                                    .pool_stride = source.pool_stride};
  return std::make_unique<VisionEncoder>(std::move(tower), selection,
                                         load_projector(projector, clip.hidden, text_dim));
}

}  // namespace

std::unique_ptr<CaptionModel> open_composed(const ComposedSource& source, WeightType type,
                                            const DigestCache& digests) {
  PromptTemplate prompt = parse_template(source.prompt);
  Parts parts;
  parts.digests = digests;
  for (const std::filesystem::path& folder : {source.vision, source.projector, source.llm}) {
    parts.configs.push_back(read_config_folder(folder));
  }
  const JsonObject llm_config = JsonObject::open(source.llm / "config.json", ErrorCode::kBadModel);
  reject_quantised(llm_config);
  const TextConfig text = parse_text_config(llm_config);

  parts.settings = source.prompt + "|" + std::to_string(source.vision_feature_layer) + "|" +
                   std::to_string(source.pool_stride) + (source.drop_cls ? "|drop" : "|keep");
  parts.preprocess = read_preprocess_spec(source.vision);
  parts.encoder = load_encoder(parts, source, type, text.hidden);
  parts.stores.push_back(
      std::make_unique<WeightStore>(weights::Checkpoint::open(source.llm), type));
  WeightStore& llm = *parts.stores.back();
  parts.decoder = std::make_unique<TransformerDecoder>(
      llm, llm.find_prefix(kTextPrefixes, "embed_tokens.weight"), "lm_head", text);
  parts.tokenizer = text::open_tokenizer(source.llm);
  parts.generation = read_generation_config(source.llm);
  parts.eos_ids = parts.generation.eos_ids.empty() ? text.eos_ids : parts.generation.eos_ids;
  if (parts.eos_ids.empty() && parts.tokenizer->eos_id()) {
    parts.eos_ids = {*parts.tokenizer->eos_id()};
  }
  return std::make_unique<Composed>(std::move(parts), std::move(prompt));
}

}  // namespace caption::model
