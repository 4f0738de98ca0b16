#include "plan/known_models.h"

#include <algorithm>
#include <array>

#include "base/ascii.h"
#include "plan/internal/known_shapes.h"

namespace caption::plan {
namespace {

using model::Blueprint;

struct Known {
  const char* name;
  const char* hub_name;
  KnownUse use;
  Blueprint (*make)();
  DType stored = DType::kBF16;
};

// The first is the model in samples/, which is not on the hub.
constexpr std::array kKnown = {
    Known{"demo", "samples/demo-model", KnownUse::kCaptioner,
          [] { return llava(demo_text(), demo_vision()); }},
    Known{"qwen3-0.6b", "Qwen/Qwen3-0.6B", KnownUse::kPart,
          [] { return text_model(qwen3(kQwen3Size0B6)); }},
    Known{"qwen3-1.7b", "Qwen/Qwen3-1.7B", KnownUse::kPart,
          [] { return text_model(qwen3(kQwen3Size1B7)); }},
    Known{"qwen3-4b", "Qwen/Qwen3-4B", KnownUse::kPart,
          [] { return text_model(qwen3(kQwen3Size4B)); }},
    Known{"qwen3-8b", "Qwen/Qwen3-8B", KnownUse::kPart,
          [] { return text_model(qwen3(kQwen3Size8B)); }},
    Known{"qwen3-14b", "Qwen/Qwen3-14B", KnownUse::kPart,
          [] { return text_model(qwen3(kQwen3Size14B)); }},
    Known{"qwen3-32b", "Qwen/Qwen3-32B", KnownUse::kPart,
          [] { return text_model(qwen3(kQwen3Size32B)); }},
    Known{"qwen2.5-0.5b", "Qwen/Qwen2.5-0.5B-Instruct", KnownUse::kPart,
          [] { return text_model(qwen2(kQwen2Size0B5)); }},
    Known{"qwen2.5-1.5b", "Qwen/Qwen2.5-1.5B-Instruct", KnownUse::kPart,
          [] { return text_model(qwen2(kQwen2Size1B5)); }},
    Known{"qwen2.5-3b", "Qwen/Qwen2.5-3B-Instruct", KnownUse::kPart,
          [] { return text_model(qwen2(kQwen2Size3B)); }},
    Known{"qwen2.5-7b", "Qwen/Qwen2.5-7B-Instruct", KnownUse::kPart,
          [] { return text_model(qwen2(kQwen2Size7B)); }},
    Known{"qwen2.5-14b", "Qwen/Qwen2.5-14B-Instruct", KnownUse::kPart,
          [] { return text_model(qwen2(kQwen2Size14B)); }},
    Known{"llama-3.2-1b", "meta-llama/Llama-3.2-1B-Instruct", KnownUse::kPart,
          [] { return text_model(llama3(kLlama3Size1B)); }},
    Known{"llama-3.2-3b", "meta-llama/Llama-3.2-3B-Instruct", KnownUse::kPart,
          [] { return text_model(llama3(kLlama3Size3B)); }},
    Known{"llama-3.1-8b", "meta-llama/Llama-3.1-8B-Instruct", KnownUse::kPart,
          [] { return text_model(llama3(kLlama3Size8B)); }},
    Known{"mistral-7b", "mistralai/Mistral-7B-Instruct-v0.2", KnownUse::kPart,
          [] { return text_model(mistral_7b()); }},
    Known{"llama-7b", "lmsys/vicuna-7b-v1.5", KnownUse::kPart,
          [] { return text_model(llama_7b(32000, 1)); }},
    Known{"clip-l-336", "openai/clip-vit-large-patch14-336", KnownUse::kPart, clip_model,
          DType::kF32},
    // The 23 of CLIP's 24 layers before hidden_states[-2] run.
    Known{"llava-next-video-7b", "llava-hf/LLaVA-NeXT-Video-7B-hf", KnownUse::kCaptioner,
          [] { return llava(llama_7b(32064, 2.5), clip_l_336(23)); }},
    Known{"llava-next-video-7b-dpo", "llava-hf/LLaVA-NeXT-Video-7B-DPO-hf", KnownUse::kCaptioner,
          [] { return llava(llama_7b(32064, 2.5), clip_l_336(23)); }},
    Known{"llava-next-video-7b-32k", "llava-hf/LLaVA-NeXT-Video-7B-32K-hf", KnownUse::kCaptioner,
          [] { return llava(with_vocab(mistral_7b(), 32064), clip_l_336(23)); }},
    Known{"llava-next-video-34b", "llava-hf/LLaVA-NeXT-Video-34B-hf", KnownUse::kCaptioner,
          [] { return llava(yi_34b(64064), clip_l_336(23)); }},
    Known{"llava-next-video-34b-dpo", "llava-hf/LLaVA-NeXT-Video-34B-DPO-hf", KnownUse::kCaptioner,
          [] { return llava(yi_34b(64064), clip_l_336(23)); }},
    Known{"qwen2.5-vl-3b", "Qwen/Qwen2.5-VL-3B-Instruct", KnownUse::kCaptioner,
          [] { return qwen2_5_vl(kQwen2Size3B, 3420); }},
    Known{"qwen2.5-vl-7b", "Qwen/Qwen2.5-VL-7B-Instruct", KnownUse::kCaptioner,
          [] { return qwen2_5_vl(kQwen2Size7B, 3420); }},
    Known{"qwen2.5-vl-32b", "Qwen/Qwen2.5-VL-32B-Instruct", KnownUse::kCaptioner,
          [] { return qwen2_5_vl(kQwen2Size32B, 3456); }},
    Known{"qwen2.5-vl-72b", "Qwen/Qwen2.5-VL-72B-Instruct", KnownUse::kCaptioner,
          [] { return qwen2_5_vl(kQwen2Size72B, 3456); }},
    Known{"qwen3-vl-2b", "Qwen/Qwen3-VL-2B-Instruct", KnownUse::kCaptioner,
          [] { return qwen3_vl(qwen3(kQwen3Size1B7, kQwen3VlPositions), Qwen3VlTower::kSmall); }},
    Known{"qwen3-vl-4b", "Qwen/Qwen3-VL-4B-Instruct", KnownUse::kCaptioner,
          [] { return qwen3_vl(qwen3(kQwen3Size4B, kQwen3VlPositions), Qwen3VlTower::kSmall); }},
    Known{"qwen3-vl-8b", "Qwen/Qwen3-VL-8B-Instruct", KnownUse::kCaptioner,
          [] { return qwen3_vl(qwen3(kQwen3Size8B, kQwen3VlPositions), Qwen3VlTower::kLarge); }},
    Known{"qwen3-vl-32b", "Qwen/Qwen3-VL-32B-Instruct", KnownUse::kCaptioner,
          [] { return qwen3_vl(qwen3(kQwen3Size32B, kQwen3VlPositions), Qwen3VlTower::kLarge); }},
    Known{"internvl3.5-1b", "OpenGVLab/InternVL3_5-1B-HF", KnownUse::kCaptioner,
          [] { return intern_vl(qwen3(kQwen3Size0B6), intern_vit_300m()); }},
    Known{"internvl3.5-2b", "OpenGVLab/InternVL3_5-2B-HF", KnownUse::kCaptioner,
          [] { return intern_vl(qwen3(kQwen3Size1B7), intern_vit_300m()); }},
    Known{"internvl3.5-4b", "OpenGVLab/InternVL3_5-4B-HF", KnownUse::kCaptioner,
          [] { return intern_vl(qwen3(kQwen3Size4B), intern_vit_300m()); }},
    Known{"internvl3.5-8b", "OpenGVLab/InternVL3_5-8B-HF", KnownUse::kCaptioner,
          [] { return intern_vl(qwen3(kQwen3Size8B), intern_vit_300m()); }},
    Known{"internvl3.5-14b", "OpenGVLab/InternVL3_5-14B-HF", KnownUse::kCaptioner,
          [] { return intern_vl(qwen3(kQwen3Size14B), intern_vit_300m()); }},
    Known{"internvl3.5-38b", "OpenGVLab/InternVL3_5-38B-HF", KnownUse::kCaptioner,
          [] { return intern_vl(qwen3(kQwen3Size32B), intern_vit_6b()); }},
    Known{"internvl3-1b", "OpenGVLab/InternVL3-1B-hf", KnownUse::kCaptioner,
          [] { return intern_vl3(kQwen2Size0B5, intern_vit_300m()); }},
    Known{"internvl3-2b", "OpenGVLab/InternVL3-2B-hf", KnownUse::kCaptioner,
          [] { return intern_vl3(kQwen2Size1B5, intern_vit_300m()); }},
    Known{"internvl3-8b", "OpenGVLab/InternVL3-8B-hf", KnownUse::kCaptioner,
          [] { return intern_vl3(kQwen2Size7B, intern_vit_300m()); }},
    Known{"internvl3-14b", "OpenGVLab/InternVL3-14B-hf", KnownUse::kCaptioner,
          [] { return intern_vl3(kQwen2Size14B, intern_vit_300m()); }},
    Known{"internvl3-38b", "OpenGVLab/InternVL3-38B-hf", KnownUse::kCaptioner,
          [] { return intern_vl3(kQwen2Size32B, intern_vit_6b()); }},
    Known{"llava-onevision-0.5b", "llava-hf/llava-onevision-qwen2-0.5b-ov-hf", KnownUse::kCaptioner,
          [] { return onevision(with_vocab(qwen2(kQwen2Size0B5), 152000), siglip_so400m(26, 14)); },
          DType::kF16},
    Known{"llava-onevision-7b", "llava-hf/llava-onevision-qwen2-7b-ov-hf", KnownUse::kCaptioner,
          [] { return onevision(with_vocab(qwen2(kQwen2Size7B), 152128), siglip_so400m(26, 14)); },
          DType::kF16},
    Known{"llava-onevision-72b", "llava-hf/llava-onevision-qwen2-72b-ov-hf", KnownUse::kCaptioner,
          [] { return onevision(with_vocab(qwen2(kQwen2Size72B), 152128), siglip_so400m(26, 14)); },
          DType::kF16},
    Known{"varco-vision-2.0-1.7b", "NCSOFT/VARCO-VISION-2.0-1.7B", KnownUse::kCaptioner,
          [] { return onevision(qwen3(kQwen3Size1B7), siglip_so400m(27, 16)); }},
    Known{"varco-vision-2.0-14b", "NCSOFT/VARCO-VISION-2.0-14B", KnownUse::kCaptioner,
          [] { return onevision(qwen3(kQwen3Size14B), siglip_so400m(27, 16)); }},
};

// Whether `name` names the repository, with or without the ending "-hf": the repositories of
// InternVL without it hold the same weights under other names.
bool is_repository(std::string_view name, std::string_view hub_name) {
  if (equal_ignoring_case(name, hub_name)) return true;
  constexpr std::string_view kEnding = "-hf";
  if (!starts_with_ignoring_case(name, "OpenGVLab/") || hub_name.size() < kEnding.size())
    return false;
  const std::string_view stem = hub_name.substr(0, hub_name.size() - kEnding.size());
  return equal_ignoring_case(hub_name.substr(stem.size()), kEnding) &&
         equal_ignoring_case(name, stem);
}

const Known* find_known(std::string_view name) {
  const auto* const known = std::find_if(kKnown.begin(), kKnown.end(), [&](const Known& candidate) {
    return equal_ignoring_case(candidate.name, name) || is_repository(name, candidate.hub_name);
  });
  return known == kKnown.end() ? nullptr : known;
}

}  // namespace

std::optional<Blueprint> find_known_model(std::string_view name) {
  const Known* const known = find_known(name);
  if (known == nullptr) return std::nullopt;
  Blueprint blueprint = known->make();
  blueprint.name = find_hub_name(name).value_or(known->hub_name);
  blueprint.set_stored(known->stored);
  return blueprint;
}

std::optional<KnownUse> find_known_use(std::string_view name) {
  const Known* const known = find_known(name);
  return known == nullptr ? std::nullopt : std::optional<KnownUse>(known->use);
}

std::optional<std::string> find_hub_name(std::string_view name) {
  const Known* const known = find_known(name);
  if (known == nullptr || known == kKnown.begin()) return std::nullopt;
  const bool is_other_repository =
      !equal_ignoring_case(name, known->name) && !equal_ignoring_case(name, known->hub_name);
  return is_other_repository ? std::string(name) : known->hub_name;
}

std::vector<std::string> known_model_names() {
  std::vector<std::string> names;
  for (const Known& known : kKnown) names.emplace_back(known.name);
  return names;
}

std::vector<std::string> known_hub_names() {
  std::vector<std::string> names;
  for (const Known& known : kKnown) {
    if (&known != kKnown.begin()) names.emplace_back(known.hub_name);
  }
  return names;
}

}  // namespace caption::plan
