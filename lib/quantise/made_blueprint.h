// quantise/made_blueprint.h: the blueprints of the checkpoints that `quantize` makes of a model,
// without making them.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "model/blueprint.h"

namespace caption::quantise {

// The names of formats() and gguf_formats() in which a model holds codes.
std::vector<std::string_view> code_formats();

// Returns `blueprint` with Parameter::codes as model::read_blueprint() finds them in what
// quantise_checkpoint() or make_gguf() makes in the format with default options; calibration
// changes none of them. Throws Error(kUnavailable) when the format cannot hold a matrix of the
// decoder, or holds none; kUsage for a format that code_formats() does not name. `blueprint` has no
// codes.
model::Blueprint made_blueprint(const model::Blueprint& blueprint, std::string_view format);

// Returns how `caption-cli quantize` made a folder or the folder of a GGUF file: --format with the
// options that change codes and are not the defaults, as "gptq --calibrate" or "awq --group-size
// 64". Empty where there is no manifest of its own, or none that can be read.
std::string read_made_as(const std::filesystem::path& model);

}  // namespace caption::quantise
