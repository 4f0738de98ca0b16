#include "model/internal/prompt.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"

namespace caption::model {
namespace {

using text::AddedEnds;
using text::AddedTokens;

bool holds_added_token(const text::Tokenizer& tokenizer, const std::string& words) {
  return tokenizer.encode(words, AddedTokens::kRecognise) !=
         tokenizer.encode(words, AddedTokens::kPlainText);
}

// A part of a text that is tokenised at once.
struct Piece {
  std::string text = {};
  AddedTokens added = AddedTokens::kRecognise;
};

// Text after other tokens gets neither the <s> nor the space that a tokenizer puts before a text;
// `adds_end` tells whether it ends the whole.
void append_continuation(const text::Tokenizer& tokenizer, const Piece& continuation, bool adds_end,
                         std::vector<std::int32_t>& ids) {
  const std::vector<std::int32_t> piece = tokenizer.encode(continuation.text, continuation.added,
                                                           {.beginning = false, .end = adds_end});
  std::span<const std::int32_t> rest = piece;
  if (!rest.empty() && tokenizer.strips_leading_space() &&
      tokenizer.token_bytes(rest.front()) == " ") {
    rest = rest.subspan(1);
  }
  ids.insert(ids.end(), rest.begin(), rest.end());
}

}  // namespace

PromptText::Stretch& PromptText::last(bool is_markup) {
  if (stretches_.empty() || stretches_.back().is_markup != is_markup) {
    stretches_.push_back({.is_markup = is_markup});
  }
  return stretches_.back();
}

void PromptText::add_markup(std::string_view text) {
  if (!text.empty()) last(true).text += text;
}

void PromptText::add_plain(std::string_view text) {
  if (!text.empty()) last(false).text += text;
}

void PromptText::add_words(std::string_view words) {
  if (words.empty()) return;
  Stretch& stretch = last(false);
  stretch.text += words;
  stretch.words.emplace_back(words);
}

void PromptText::add(const PromptFrame& frame, std::string_view words) {
  add_markup(frame.head);
  add_plain(frame.glue_before);
  add_words(words);
  add_plain(frame.glue_after);
  add_markup(frame.tail);
}

std::vector<std::int32_t> PromptText::encode(const text::Tokenizer& tokenizer,
                                             AddedEnds ends) const {
  std::vector<Piece> pieces(1);
  for (const Stretch& stretch : stretches_) {
    const bool stands_alone =
        std::any_of(stretch.words.begin(), stretch.words.end(),
                    [&](const std::string& words) { return holds_added_token(tokenizer, words); });
    if (stands_alone) {
      pieces.push_back({.text = stretch.text, .added = AddedTokens::kPlainText});
      pieces.emplace_back();
    } else {
      pieces.back().text += stretch.text;
    }
  }
  std::vector<std::int32_t> ids =
      tokenizer.encode(pieces.front().text, pieces.front().added,
                       {.beginning = ends.beginning, .end = ends.end && pieces.size() == 1});
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    append_continuation(tokenizer, pieces[i], ends.end && i + 1 == pieces.size(), ids);
  }
  return ids;
}

PromptIds build_video_prompt(const text::Tokenizer& tokenizer, const PromptText& text,
                             std::int32_t placeholder, std::span<const std::int64_t> counts) {
  const std::vector<std::int32_t> ids = text.encode(tokenizer);
  if (std::count(ids.begin(), ids.end(), placeholder) != std::ssize(counts)) {
    const std::string token = tokenizer.token_bytes(placeholder);  // empty for a special token
    throw Error(ErrorCode::kUsage, "the prompt holds " +
                                       (token.empty() ? "the video's token" : json_quote(token)) +
                                       ", which this model reads as the video itself; write it "
                                       "differently, for example with a space inside");
  }
  PromptIds prompt;
  std::size_t video = 0;
  for (const std::int32_t id : ids) {
    if (id != placeholder) {
      prompt.ids.push_back(id);
      continue;
    }
    for (std::int64_t i = 0; i < counts[video]; ++i) {
      prompt.vision_positions.push_back(static_cast<std::int32_t>(prompt.ids.size()));
      prompt.ids.push_back(placeholder);
    }
    ++video;
  }
  return prompt;
}

}  // namespace caption::model
