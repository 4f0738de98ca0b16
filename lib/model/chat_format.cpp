#include "model/internal/chat_format.h"

#include <utility>

#include "base/error.h"

namespace caption::model {
namespace {

void add_system(const ChatFormat& format, const std::string& system, PromptText& text) {
  const std::string& words = system.empty() ? format.default_system : system;
  if (words.empty()) return;
  if (format.system_rule == ChatFormat::System::kRefused) {
    throw Error(ErrorCode::kUsage,
                "the chat template of this model has no place for a system prompt; write it into "
                "the prompt");
  }
  if (format.system_rule == ChatFormat::System::kTwice) text.add_words(words);
  text.add(format.system, words);
}

}  // namespace

ChatFormat chatml_format(std::string after_video) {
  const auto message = [&](const std::string& role) {
    return PromptFrame{.head = "<|im_start|>" + role + "\n", .tail = "<|im_end|>\n"};
  };
  return {.system = message("system"),
          .user = message("user"),
          .after_video = std::move(after_video),
          .assistant = message("assistant"),
          .generation = {.head = "<|im_start|>assistant\n"},
          .literals = {"<|im_start|>", "<|im_end|>\n", "<|im_start|>assistant\n"}};
}

PromptIds build_chat_prompt(const text::Tokenizer& tokenizer, const ChatFormat& format,
                            std::int32_t placeholder, const Conversation& conversation,
                            const ClipShape& clip, const DescribeVideo& describe_video) {
  PromptText text;
  std::vector<std::int64_t> counts;
  const auto add_question = [&](const ClipShape* shape, const std::string& words) {
    PromptFrame frame = format.user;
    if (shape != nullptr) {
      const VideoText video = describe_video(*shape);
      frame.head += video.markup;
      frame.glue_before.insert(0, format.after_video);
      counts.insert(counts.end(), static_cast<std::size_t>(video.num_placeholders),
                    video.tokens_each);
    }
    text.add(frame, words);
  };
  add_system(format, conversation.system, text);
  for (const Example& example : conversation.examples) {
    add_question(example.clip ? &*example.clip : nullptr, example.prompt);
    text.add(format.assistant, example.caption);
  }
  add_question(&clip, conversation.prompt);
  text.add(format.generation, "");
  return build_video_prompt(tokenizer, text, placeholder, counts);
}

std::vector<ClipShape> clips_of(const Conversation& conversation, const ClipShape& clip) {
  std::vector<ClipShape> clips;
  for (const Example& example : conversation.examples) {
    if (example.clip) clips.push_back(*example.clip);
  }
  clips.push_back(clip);
  return clips;
}

}  // namespace caption::model
