// model/internal/hub_model.h: what the families share that are one folder, as transformers saves a
// ...ForConditionalGeneration: the prefixes of the parts' tensors, and the files beside the
// weights.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "model/generation_config.h"
#include "model/internal/model_folder.h"
#include "model/internal/parts.h"
#include "model/text_family.h"
#include "text/tokenizer.h"
#include "weights/source.h"

namespace caption::model {

// Prefixes of the parts' tensors: as the modules are called since transformers 4.52, and as the
// repositories on the hub hold them.
const std::vector<std::string>& hub_text_prefixes();
const std::vector<std::string>& hub_head_prefixes();
const std::vector<std::string>& hub_projector_prefixes();
// Prefixes of CLIP and SigLIP: each also without the inner level "vision_model." (transformers 5).
const std::vector<std::string>& hub_tower_prefixes();

// Returns the object under `key`; throws Error(kBadModel) "... is missing; this is no `family`
// checkpoint".
JsonObject require_part(const JsonObject& config, std::string_view key, std::string_view family);

// Ties the embeddings when the checkpoint has no LM head and the enclosing configuration, whose
// tie_word_embeddings does not count otherwise, says so: the reference would initialise the missing
// head at random.
void tie_missing_head(const JsonObject& config, const weights::Source& source, TextConfig& text);

// What place_hub_parts() places.
struct HubWeights {
  Blueprint blueprint;
  std::vector<std::unique_ptr<weights::Source>> sources;
  weights::WeightFormat format;
};

// Begins to read the tokenizer of `folder`, which must outlive `parts`, on a thread of its own.
void start_tokenizer(const ModelFolder& folder, Parts& parts);

// Calls place_parts(), waits for the tokenizer, which is started here at the latest, and reads the
// generation settings of a folder. The stop ids are those of generation_config.json, else the text
// configuration's, else the tokenizer's. An error of the weights comes before one of the tokenizer.
void place_hub_parts(const ModelFolder& folder, const TextConfig& text, HubWeights weights,
                     Parts& parts);

// Returns the id of an added token that a prompt needs. Throws Error(kBadModel) when the tokenizer
// has none, or another id than `configured`, which the configuration has under `key`.
std::int32_t require_token(const text::Tokenizer& tokenizer, std::string_view token);
void check_token(const text::Tokenizer& tokenizer, std::string_view token, std::int32_t configured,
                 std::string_view key);

// The id of a LLaVA model's video token, and the key that the configuration has it under:
// video_token_index, or in newer files video_token_id.
struct VideoTokenId {
  std::int32_t id = 0;
  std::string key;
};
VideoTokenId parse_video_token_id(const JsonObject& config, std::int64_t fallback,
                                  std::int64_t vocab);

// As read_generation_config(path) of model/generation_config.h.
GenerationConfig read_generation_config(const ModelFolder& folder);

}  // namespace caption::model
