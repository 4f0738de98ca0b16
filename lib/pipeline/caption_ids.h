// pipeline/caption_ids.h: a caption as a model writes it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/caption_model.h"

namespace caption::pipeline {

// The tokens of a caption, whose text names no added token, and the first of the model's tokens
// that end one, if it has any.
std::vector<std::int32_t> caption_ids(const model::CaptionModel& model, std::string_view caption);

}  // namespace caption::pipeline
