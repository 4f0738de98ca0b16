// weights/internal/export_tokens.h: the keys tokenizer.* of a GGUF file.
#pragma once

#include <filesystem>

#include "weights/gguf_writer.h"
#include "weights/internal/export_config.h"

namespace caption::weights {

// Adds the tokenizer of a model's folder and its chat template. Ids of the first, last, unknown and
// padding token that the tokenizer's files do not name are those of config.json. The template is
// that of chat_template.jinja, else of the first file of chat_template.json, processor_config.json
// and tokenizer_config.json that has one. Throws as text::export_tokenizer().
void add_token_fields(const ExportedModel& model, const std::filesystem::path& folder,
                      GgufFields& fields);

}  // namespace caption::weights
