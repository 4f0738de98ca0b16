#include "model/internal/prompt.h"

#include <algorithm>
#include <span>

#include "base/error.h"
#include "base/json.h"

namespace caption::model {
namespace {

using text::AddedEnds;
using text::AddedTokens;

// Text after other tokens gets neither the <s> nor the space that a tokenizer puts before a text;
// `adds_end` tells whether it ends the whole.
void append_continuation(const text::Tokenizer& tokenizer, std::string_view text, AddedTokens added,
                         bool adds_end, std::vector<std::int32_t>& ids) {
  const std::vector<std::int32_t> piece =
      tokenizer.encode(text, added, {.beginning = false, .end = adds_end});
  std::span<const std::int32_t> rest = piece;
  if (!rest.empty() && tokenizer.strips_leading_space() &&
      tokenizer.token_bytes(rest.front()) == " ") {
    rest = rest.subspan(1);
  }
  ids.insert(ids.end(), rest.begin(), rest.end());
}

}  // namespace

std::vector<std::int32_t> encode_prompt(const text::Tokenizer& tokenizer, const PromptFrame& frame,
                                        std::string_view user_prompt, AddedEnds ends) {
  const std::string words(user_prompt);
  const bool holds_added_token = tokenizer.encode(words, AddedTokens::kRecognise) !=
                                 tokenizer.encode(words, AddedTokens::kPlainText);
  const std::string middle = frame.glue_before + words + frame.glue_after;
  if (!holds_added_token) {
    return tokenizer.encode(frame.head + middle + frame.tail, AddedTokens::kRecognise, ends);
  }
  std::vector<std::int32_t> ids = tokenizer.encode(frame.head, AddedTokens::kRecognise,
                                                   {.beginning = ends.beginning, .end = false});
  append_continuation(tokenizer, middle, AddedTokens::kPlainText, false, ids);
  append_continuation(tokenizer, frame.tail, AddedTokens::kRecognise, ends.end, ids);
  return ids;
}

PromptIds build_video_prompt(const text::Tokenizer& tokenizer, const PromptFrame& frame,
                             std::string_view user_prompt, std::int32_t placeholder,
                             std::int64_t count) {
  const std::vector<std::int32_t> ids = encode_prompt(tokenizer, frame, user_prompt);
  const std::vector<std::int32_t> bare = encode_prompt(tokenizer, frame, "");
  if (std::count(ids.begin(), ids.end(), placeholder) !=
      std::count(bare.begin(), bare.end(), placeholder)) {
    const std::string text = tokenizer.token_bytes(placeholder);  // empty for a special token
    throw Error(ErrorCode::kUsage, "the prompt holds " +
                                       (text.empty() ? "the video's token" : json_quote(text)) +
                                       ", which this model reads as the video itself; write it "
                                       "differently, for example with a space inside");
  }
  return expand_placeholder(ids, placeholder, count);
}

PromptIds expand_placeholder(const std::vector<std::int32_t>& ids, std::int32_t placeholder,
                             std::int64_t count) {
  PromptIds prompt;
  for (const std::int32_t id : ids) {
    if (id != placeholder) {
      prompt.ids.push_back(id);
      continue;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      prompt.vision_positions.push_back(static_cast<std::int32_t>(prompt.ids.size()));
      prompt.ids.push_back(placeholder);
    }
  }
  return prompt;
}

}  // namespace caption::model
