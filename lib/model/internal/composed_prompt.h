// model/internal/composed_prompt.h: the prompt of a composed model, whose templates the preset
// gives.
//
//   system_template, if there is a system prompt; for each example prompt + caption + example_end;
//   prompt
// where an example without a video has nothing in the place of {video}.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "model/caption_model.h"
#include "model/internal/prompt.h"

namespace caption::model {

class ComposedPrompt {
 public:
  // Throws Error(kBadPreset) for a template without its slots, or with an unknown one.
  explicit ComposedPrompt(const ComposedSource& source);

  // Whether the template has a place for the user's words.
  bool takes_prompt() const { return before_video_.has_user_words || after_video_.has_user_words; }

  // Text between two videos is tokenised at once, since vision tokens are not text. The tokens that
  // the tokenizer adds to a text occur once, around the whole. Throws Error(kBadPreset) for
  // words where the template has no place for them, and for a system prompt or examples without a
  // template of their own.
  PromptIds build(const text::Tokenizer& tokenizer, const Conversation& conversation,
                  const ClipShape& clip, std::int32_t placeholder,
                  const std::function<std::int64_t(const ClipShape&)>& vision_tokens) const;

 private:
  // The text before or after the vision tokens: fixed, or with the user's words between fixed
  // parts.
  struct Side {
    PromptFrame frame;
    bool has_user_words = false;
  };
  static Side parse_side(std::string_view text);
  static void add(const Side& side, const std::string& words, PromptText& text);

  Side before_video_;
  Side after_video_;
  PromptFrame system_;
  bool has_system_ = false;
  std::string example_end_;
};

// Returns the id used in the place of a vision token. It is never looked up in the embedding, but
// it counts as a token of the prompt in repetition penalties, so it should be one that captions
// avoid.
std::int32_t choose_placeholder(const text::Tokenizer& tokenizer);

}  // namespace caption::model
