// model/internal/preprocessor_config.h: the preprocessing constants of a Hugging Face folder.
// Source: models.md §1.6; transformers LlavaNextVideoVideoProcessor, CLIPImageProcessor.
#pragma once

#include <filesystem>

#include "base/json.h"
#include "vision/preprocess.h"

namespace caption::model {

// Looks up, in this order: `video_processor` inside processor_config.json,
// video_preprocessor_config.json, preprocessor_config.json. What a file leaves out is the class
// default: shortest edge and crop of 224 pixels, bicubic, CLIP's mean and deviation.
// Throws Error(kBadModel) when no file is there or a value is impossible; kUnavailable for
// another resampling or rescaling than the one implemented.
vision::PreprocessSpec read_preprocess_spec(const std::filesystem::path& folder);

// The same from one parsed object.
vision::PreprocessSpec parse_preprocess_spec(const JsonObject& config);

}  // namespace caption::model
