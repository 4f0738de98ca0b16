// model/internal/prompt.h: a family's template filled with the user's words, as token ids.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/caption_model.h"
#include "text/tokenizer.h"

namespace caption::model {

// The prompt is head + glue_before + user's words + glue_after + tail. Added tokens such as
// "<video>" or "<|im_end|>" are recognised in head and tail only; the glue is plain text next to
// the user's words.
struct PromptFrame {
  std::string head;
  std::string glue_before;
  std::string glue_after;
  std::string tail;
};

// Equals the tokenisation of the whole text at once, unless `user_prompt` contains the text of an
// added token: that text then stays text, and the whole is tokenised in three pieces: head, middle,
// tail. The tokens that the tokenizer adds at `ends` occur once, around the whole.
std::vector<std::int32_t> encode_prompt(const text::Tokenizer& tokenizer, const PromptFrame& frame,
                                        std::string_view user_prompt, text::AddedEnds ends = {});

// The prompt with each `placeholder` of its template repeated `count` times. Throws Error(kUsage)
// when the user's words hold one as plain text, as they may where a tokenizer's model itself knows
// it.
PromptIds build_video_prompt(const text::Tokenizer& tokenizer, const PromptFrame& frame,
                             std::string_view user_prompt, std::int32_t placeholder,
                             std::int64_t count);

// Returns `ids` with each `placeholder` repeated `count` times, and the positions of all of these.
PromptIds expand_placeholder(const std::vector<std::int32_t>& ids, std::int32_t placeholder,
                             std::int64_t count);

}  // namespace caption::model
