// model/conversation.h: what a model is shown and told before it captions a clip.
//
// A family renders a conversation as its reference's chat template renders the messages
//   [system], (user, assistant) of each example, user
// where a user's message is a video followed by text.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/clip_shape.h"

namespace caption::model {

// A question that has been answered: few-shot prompting.
struct Example {
  std::optional<ClipShape> clip = std::nullopt;  // std::nullopt: the question has no video
  std::string prompt;
  std::string caption;
};

struct Conversation {
  std::string system = {};  // empty: none, and a family's default is rendered
  std::vector<Example> examples = {};
  std::string prompt = {};  // the user's words about the clip
};

}  // namespace caption::model
