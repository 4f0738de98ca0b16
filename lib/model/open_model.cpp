// Chooses the family that runs a folder by its config.json, and describes models without opening
// their weights.
#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/join.h"
#include "model/internal/config.h"
#include "model/internal/families.h"
#include "model/internal/parts.h"
#include "model/internal/preprocessor_config.h"
#include "model/internal/vision_config.h"
#include "model/read_blueprint.h"
#include "model/vit_blueprint.h"

namespace caption::model {
namespace {

constexpr std::array kFamilies = {&kInternVl,       &kInternVlChat, &kLlavaNextVideo,
                                  &kLlavaOnevision, &kQwen25Vl,     &kQwen3Vl};

std::string family_names() {
  std::vector<std::string_view> names;
  for (const Family* const family : kFamilies) names.push_back(family->model_type);
  return join(names);
}

// Returns the dtype that a configuration names for its tensors; the class default is f32.
DType read_stored_dtype(const JsonObject& config) {
  const std::string name = config.get_string("dtype", config.get_string("torch_dtype", "float32"));
  if (name == "bfloat16") return DType::kBF16;
  if (name == "float16") return DType::kF16;
  return DType::kF32;
}

Blueprint describe(const JsonObject& config) {
  const std::string model_type = config.require_string("model_type");
  if (const Family* const family = find_family(model_type)) return family->describe(config);
  if (const TextFamily* const text = find_text_family(model_type)) {
    return decoder_blueprint(text->parse(config).spec);
  }
  if (is_tower_type(model_type)) return clip_tower_blueprint(parse_tower_config(config));
  throw Error(ErrorCode::kUnavailable, config.name() + ": model_type \"" + model_type +
                                           "\" cannot be sized by this build; " + family_names() +
                                           ", " + tower_type_names() + ", " + text_family_names() +
                                           " can");
}

}  // namespace

const Family* find_family(std::string_view model_type) {
  const auto* const found =
      std::find_if(kFamilies.begin(), kFamilies.end(),
                   [&](const Family* family) { return family->model_type == model_type; });
  return found == kFamilies.end() ? nullptr : *found;
}

std::filesystem::path require_config(const std::filesystem::path& folder) {
  std::filesystem::path path = folder / "config.json";
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) return path;
  if (holds_adapter(folder)) {
    throw Error(ErrorCode::kBadModel,
                folder.string() +
                    ": is an adapter without its base model; name the base with --model and this "
                    "folder with --adapter");
  }
  throw Error(ErrorCode::kBadModel, folder.string() +
                                        ": config.json is missing; a model is a folder as "
                                        "transformers saves it");
}

std::unique_ptr<CaptionModel> open_model(const Context& context,
                                         const std::filesystem::path& folder,
                                         weights::WeightFormat format, const DigestCache& digests,
                                         const std::vector<AdapterSource>& adapters,
                                         Opening opening) {
  const std::filesystem::path path = require_config(folder);
  Parts parts;
  parts.context = context;
  parts.opening = opening;
  parts.digests = digests;
  parts.configs.push_back(read_config_folder(folder));
  add_inner_adapter(parts, folder);
  add_adapters(parts, adapters);
  const JsonObject config = JsonObject::open(path, ErrorCode::kBadModel);
  const std::string model_type = config.require_string("model_type");
  if (const Family* const family = find_family(model_type)) {
    return family->open(folder, config, format, std::move(parts));
  }
  throw Error(ErrorCode::kUnavailable,
              path.string() + ": model_type \"" + model_type +
                  "\" is not supported by this build; " + family_names() +
                  " are, and composed models of a CLIP or SigLIP tower, a projector and one of the "
                  "decoders " +
                  text_family_names());
}

Blueprint read_blueprint(const std::filesystem::path& folder) {
  const JsonObject config = JsonObject::open(require_config(folder), ErrorCode::kBadModel);
  Blueprint blueprint = describe(config);
  if (blueprint.vision && blueprint.vision->resize) {
    blueprint.vision->resize =
        read_preprocess_spec(folder, qwen_vl_preprocessing(*blueprint.vision)).smart;
  }
  blueprint.name = folder.string();
  blueprint.set_stored(read_stored_dtype(config));
  return blueprint;
}

}  // namespace caption::model
