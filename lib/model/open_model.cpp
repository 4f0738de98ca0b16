// Chooses the family that runs a folder by its config.json.
#include <string>
#include <utility>

#include "base/error.h"
#include "model/internal/parts.h"

namespace caption::model {

std::unique_ptr<CaptionModel> open_model(const std::filesystem::path& folder, WeightType type,
                                         const DigestCache& digests) {
  const std::filesystem::path path = folder / "config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    throw Error(ErrorCode::kBadModel, folder.string() +
                                          ": config.json is missing; a model is a folder as "
                                          "transformers saves it");
  }
  Parts parts;
  parts.digests = digests;
  parts.configs.push_back(read_config_folder(folder));
  const JsonObject config = JsonObject::open(path, ErrorCode::kBadModel);
  const std::string model_type = config.require_string("model_type");
  if (model_type == "llava_next_video") {
    return open_llava_next_video(folder, config, type, std::move(parts));
  }
  throw Error(ErrorCode::kUnavailable,
              path.string() + ": model_type \"" + model_type +
                  "\" is not supported by this build; llava_next_video is, and composed models of "
                  "a CLIP tower, a projector and a Llama or Qwen3");
}

}  // namespace caption::model
