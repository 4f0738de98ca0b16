// quantise/check_source.h: whether a model's folder can be run, before it is quantised.
#pragma once

#include <filesystem>

namespace caption::quantise {

// Reads the configuration and, of a captioner, the shapes of all tensors that it has parameters
// for. Reads no weights, and nothing of a folder without config.json or of a quantised one, which
// are refused elsewhere. Throws as model::read_blueprint(), and Error(kBadModel) naming a tensor
// that is missing or has another shape.
void check_source(const std::filesystem::path& folder);

}  // namespace caption::quantise
