// model/internal/chat_template.h: whether the chat template of a folder, a Jinja program, stands
// for the text that a ChatFormat renders.
//
// The program is not run. Its output text is compared: what it writes literally, outside of
// branches about tools. A template stands for the format if it writes every literal of the format
// and no word that the format does not know. White space of the program, quotes, names of
// variables, the order of branches and what it does with images do not matter. Source: the syntax
// of Jinja 3 with the settings of transformers 4.57.6 (utils/chat_template_utils.py): trim_blocks,
// lstrip_blocks.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "model/internal/chat_format.h"
#include "model/internal/model_folder.h"

namespace caption::model {

struct ChatTemplate {
  std::string text;  // empty: the folder has none
  std::filesystem::path file;
};

// Returns the chat template of a folder, of the first of chat_template.jinja, chat_template.json,
// processor_config.json and tokenizer_config.json that has one. One of tokenizer_config.json that
// does not mention `video_token` is the language model's, which renders no videos, and is left out;
// the same holds for the one in the metadata of a GGUF file.
// Throws Error(kBadModel) for a broken file.
ChatTemplate read_chat_template(const ModelFolder& folder, std::string_view video_token);

// What a program writes literally: its raw text and the string literals that its expressions join.
// U+001F stands for everything else that it writes.
struct TemplateOutput {
  std::string all;
  std::string without_tools;  // outside of branches whose condition mentions tools
};
TemplateOutput find_output(std::string_view program);

// Returns how the template differs from the format, as "it writes \"<think>\"", or an empty text.
// `video_literal` is what a template writes in the place of a video.
std::string find_difference(std::string_view program, const ChatFormat& format,
                            std::string_view video_literal);

// Warns, with the file and the text that is rendered, when the template does not stand for the
// format. Does nothing without a template.
void warn_of_other_template(const ChatTemplate& chat_template, const ChatFormat& format,
                            std::string_view video_literal);

}  // namespace caption::model
