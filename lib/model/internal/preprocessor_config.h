// model/internal/preprocessor_config.h: the preprocessing constants of a Hugging Face folder.
// Source: transformers LlavaNextVideoVideoProcessor, CLIPImageProcessor.
#pragma once

#include <filesystem>

#include "base/json.h"
#include "vision/preprocess.h"

namespace caption::model {

// Looks in this order for: `video_processor` inside processor_config.json,
// video_preprocessor_config.json, preprocessor_config.json. Keys that the file lacks have the class
// defaults: shortest edge and crop of 224 pixels, bicubic, CLIP's mean and deviation. Throws
// Error(kBadModel) when there is no file or a value is impossible; kUnavailable for a resampling or
// rescaling other than the implemented one.
vision::PreprocessSpec read_preprocess_spec(const std::filesystem::path& folder);

// Parses the JSON object of one of these files.
vision::PreprocessSpec parse_preprocess_spec(const JsonObject& config);

}  // namespace caption::model
