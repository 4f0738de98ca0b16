// model/internal/prompt.h: templates filled with the user's words, as token ids.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/caption_model.h"
#include "text/tokenizer.h"

namespace caption::model {

// The text head + glue_before + words + glue_after + tail. Added tokens such as "<video>" or
// "<|im_end|>" are recognised in head and tail only; the glue is plain text next to the words.
struct PromptFrame {
  std::string head = {};
  std::string glue_before = {};
  std::string glue_after = {};
  std::string tail = {};
};

// A prompt's text, in pieces that are appended one after the other.
class PromptText {
 public:
  // Text of a template, whose added tokens are recognised.
  void add_markup(std::string_view text);
  // Text of a template next to words, without added tokens.
  void add_plain(std::string_view text);
  // Text of the user, whose added tokens stay text.
  void add_words(std::string_view words);
  void add(const PromptFrame& frame, std::string_view words);

  // Equals the tokenisation of the whole text at once, unless words contain the text of an added
  // token: the stretch of plain text and words around these is then tokenised alone, and so are the
  // stretches before and after it. The tokens that the tokenizer adds at `ends` occur once, around
  // the whole.
  std::vector<std::int32_t> encode(const text::Tokenizer& tokenizer,
                                   text::AddedEnds ends = {}) const;

 private:
  // A stretch of markup, or of plain text and words.
  struct Stretch {
    bool is_markup = false;
    std::string text = {};
    std::vector<std::string> words = {};  // those in the text
  };
  Stretch& last(bool is_markup);

  std::vector<Stretch> stretches_;
};

// Returns the prompt with the i-th `placeholder` repeated counts[i] times. Throws Error(kUsage)
// when the text holds more placeholders than these, which words may where a tokenizer's model
// itself knows the placeholder.
PromptIds build_video_prompt(const text::Tokenizer& tokenizer, const PromptText& text,
                             std::int32_t placeholder, std::span<const std::int64_t> counts);

}  // namespace caption::model
