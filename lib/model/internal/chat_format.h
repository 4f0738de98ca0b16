// model/internal/chat_format.h: conversations as the chat templates of the families render them.
//
// A chat template is a Jinja program of the model's folder. Here each is a ChatFormat, fixed text
// around the parts of a conversation; chat_template.h tells whether a folder's template stands for
// the same text.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model/conversation.h"
#include "model/internal/prompt.h"

namespace caption::model {

// The text of a conversation:
//   system, then for each example and the clip's question
//     user.head + the video's text + after_video + user.glue_before + words + user.glue_after +
//     user.tail, and for an example `assistant` with its caption
//   and `generation` at the end.
struct ChatFormat {
  enum class System {
    kMessage,  // `system` with the words
    // The words, then `system` with the words: two templates of the hub write them twice.
    kTwice,
    kRefused,  // the template throws
  };
  System system_rule = System::kMessage;
  PromptFrame system = {};
  std::string default_system = {};  // the words when there are none; empty: no such message
  PromptFrame user = {};
  std::string after_video = {};  // plain text
  PromptFrame assistant = {};
  PromptFrame generation = {};  // a frame without words
  // What the template writes literally, besides the text in the place of a video and
  // default_system.
  std::vector<std::string> literals = {};
};

// <|im_start|>role\n ... <|im_end|>\n, with `after_video` between a video and its question.
ChatFormat chatml_format(std::string after_video);

// The text in the place of a clip, as markup with one placeholder or several, and the number of
// vision tokens of each.
struct VideoText {
  std::string markup;
  std::int64_t num_placeholders = 1;
  std::int64_t tokens_each = 0;
};
using DescribeVideo = std::function<VideoText(const ClipShape& clip)>;

// Renders the conversation, whose last question is about `clip`. Throws as
// CaptionModel::build_prompt().
PromptIds build_chat_prompt(const text::Tokenizer& tokenizer, const ChatFormat& format,
                            std::int32_t placeholder, const Conversation& conversation,
                            const ClipShape& clip, const DescribeVideo& describe_video);

// The clips of a conversation in order: those of the examples, then `clip`.
std::vector<ClipShape> clips_of(const Conversation& conversation, const ClipShape& clip);

}  // namespace caption::model
