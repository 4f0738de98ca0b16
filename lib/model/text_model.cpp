// A language model alone (llama, mistral, qwen2, qwen3, also as a GGUF file), which guesses tokens
// for a captioner from the question, without the video.
#include "model/internal/text_model.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "model/internal/chat_format.h"
#include "model/internal/gguf_errors.h"
#include "model/internal/hub_model.h"
#include "model/internal/model_folder.h"
#include "model/internal/parts.h"

namespace caption::model {
namespace {

constexpr std::int32_t kNoPlaceholder = -1;

// Guesses need no exact template: a token that is guessed wrong costs time and changes no caption.
// Qwen3 begins an answer with its thoughts unless they are given as empty.
ChatFormat choose_format(const text::Tokenizer& tokenizer) {
  if (tokenizer.find_token("<|im_start|>")) {
    ChatFormat format = chatml_format("");
    if (tokenizer.find_token("<think>")) format.generation.head += "<think>\n\n</think>\n\n";
    return format;
  }
  if (tokenizer.find_token("<|start_header_id|>")) {
    const auto message = [](const std::string& role) {
      return PromptFrame{.head = "<|start_header_id|>" + role + "<|end_header_id|>\n\n",
                         .tail = "<|eot_id|>"};
    };
    return {.system = message("system"),
            .user = message("user"),
            .assistant = message("assistant"),
            .generation = {.head = "<|start_header_id|>assistant<|end_header_id|>\n\n"}};
  }
  return {.system = {.glue_after = " "},
          .user = {.head = "USER: ", .glue_after = " "},
          .assistant = {.glue_before = "ASSISTANT: ", .glue_after = " "},
          .generation = {.glue_before = "ASSISTANT:"}};
}

class TextModel final : public PartsCaptionModel {
 public:
  explicit TextModel(Parts parts)
      : PartsCaptionModel(std::move(parts)), format_(choose_format(tokenizer())) {}

  bool sees_video() const override { return false; }
  std::int64_t vision_tokens(const ClipShape& /*clip*/) const override { return 0; }
  std::vector<Tensor> encode_clips(Stream& /*stream*/,
                                   std::span<const ConstView> /*clips*/) override {
    throw Error(ErrorCode::kInternal, "a language model encodes no clips");
  }
  double pass_share(const Shape& /*pixel_values*/) const override { return 0; }
  std::int64_t vision_scratch_bytes() const override { return 0; }

  PromptIds build_prompt(const Conversation& conversation, const ClipShape& clip) const override {
    const auto describe = [](const ClipShape& /*shape*/) {
      return VideoText{.markup = "", .num_placeholders = 0};
    };
    return build_chat_prompt(tokenizer(), format_, kNoPlaceholder, conversation, clip, describe);
  }

  std::string_view family() const override { return "text"; }

 private:
  ChatFormat format_;
};

}  // namespace

Blueprint text_model_blueprint(const DecoderSpec& text) {
  Blueprint blueprint;
  add_decoder(blueprint, text, {"model.", ""}, {""});
  return blueprint;
}

bool is_language_model(const std::filesystem::path& path) {
  const ModelFolder files(path);
  if (files.is_gguf()) return files.gguf_text() != nullptr && files.gguf_tower() == nullptr;
  const auto config = files.find_json("config.json");
  return config && find_text_family(config->get_string("model_type", "")) != nullptr;
}

std::unique_ptr<CaptionModel> open_language_model(const Context& context,
                                                  const std::filesystem::path& path,
                                                  weights::WeightFormat format,
                                                  const OpenOptions& options) {
  // Before anything is read of the folder: check_unchanged() finds what is written from here on.
  ConfigFolder configs = read_config_folder(path);
  const ModelFolder files(path, ModelPart::kText);
  Parts parts = begin_parts(context, {std::move(configs)}, options);
  start_tokenizer(files, parts);
  add_inner_adapter(parts, path);
  add_adapters(parts, options.adapters);
  const TextConfig text =
      with_gguf_words(files, [&] { return parse_text_config(files.require_config()); });
  std::vector<std::unique_ptr<weights::Source>> sources;
  sources.push_back(files.open_weights());
  place_hub_parts(files, text, {text_model_blueprint(text.spec), std::move(sources), format},
                  parts);
  return std::make_unique<TextModel>(std::move(parts));
}

}  // namespace caption::model
