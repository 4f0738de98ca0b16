// model/internal/prompt.h: a family's template around the user's words, as token ids.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/caption_model.h"
#include "text/tokenizer.h"

namespace caption::model {

// head + glue + user's words + glue + tail. Added tokens such as "<video>" or "<|im_end|>" count
// in head and tail only; the glue is plain text that touches the user's words.
struct PromptFrame {
  std::string head;
  std::string glue_before;
  std::string glue_after;
  std::string tail;
};

// Equals the tokenisation of the whole text in one go, unless `user_prompt` holds the text of an
// added token: that text then stays text, and only the seams at head and tail are cut.
std::vector<std::int32_t> encode_prompt(const text::Tokenizer& tokenizer, const PromptFrame& frame,
                                        std::string_view user_prompt);

// `ids` with each `placeholder` repeated `count` times, and where they went.
PromptIds expand_placeholder(const std::vector<std::int32_t>& ids, std::int32_t placeholder,
                             std::int64_t count);

}  // namespace caption::model
