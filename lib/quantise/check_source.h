// quantise/check_source.h: whether a model's folder can be run, before it is quantised.
#pragma once

#include <filesystem>

#include "backend/context.h"

namespace caption::quantise {

// Throws Error: kUsage for what is no folder; kBadModel for what cannot be examined, for a folder
// without config.json, and for one whose weights are quantised already.
void require_plain_folder(const std::filesystem::path& model);

// Throws Error(kUsage) where what is made of a model would go into the model's own folder.
void require_other_folder(const std::filesystem::path& model, const std::filesystem::path& output);

// The same as require_plain_folder(), and opens a captioner as a run does, with its processor,
// tokenizer and generation_config.json; reads config.json and generation_config.json of a language
// model or a tower, and the former's tokenizer. Reads no weights. Throws as model::read_blueprint()
// and model::open_model().
void check_source(const Context& context, const std::filesystem::path& folder);

}  // namespace caption::quantise
