#include "model/internal/composed_prompt.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace caption::model {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kVideoSlot = "{video}";
constexpr std::string_view kPromptSlot = "{prompt}";
constexpr std::string_view kSystemSlot = "{system}";

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + part.size())) {
    ++found;
  }
  return found;
}

// Refuses words in braces that look like a slot and are none of `slots`: they would be fed to the
// model as text.
void check_slots(std::string_view text, std::initializer_list<std::string_view> slots,
                 const char* key) {
  for (std::size_t at = text.find('{'); at != std::string_view::npos; at = text.find('{', at + 1)) {
    const std::size_t end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", at + 1);
    if (end == at + 1 || end == std::string_view::npos || text[end] != '}') continue;
    const std::string_view slot = text.substr(at, end + 1 - at);
    if (std::find(slots.begin(), slots.end(), slot) != slots.end()) continue;
    std::string known;
    for (const std::string_view name : slots) {
      known += (known.empty() ? "" : " and ") + std::string(name);
    }
    throw Error(ErrorCode::kBadPreset, std::string(key) + ": " + std::string(slot) +
                                           " is no slot of this template; there is " + known);
  }
}

// The fixed parts of a template with one slot.
PromptFrame split_at(std::string_view text, std::string_view slot) {
  const std::size_t at = text.find(slot);
  return {.head = std::string(text.substr(0, at)),
          .tail = std::string(text.substr(at + slot.size()))};
}

// A prompt's text between its videos, and the number of vision tokens after each text but the last.
struct Texts {
  std::vector<PromptText> texts = std::vector<PromptText>(1);
  std::vector<std::int64_t> counts = {};
};

PromptIds join(const text::Tokenizer& tokenizer, const Texts& texts, std::int32_t placeholder) {
  PromptIds prompt;
  for (std::size_t i = 0; i < texts.texts.size(); ++i) {
    const bool is_last = i + 1 == texts.texts.size();
    const std::vector<std::int32_t> ids =
        texts.texts[i].encode(tokenizer, {.beginning = i == 0, .end = is_last});
    prompt.ids.insert(prompt.ids.end(), ids.begin(), ids.end());
    for (std::int64_t n = is_last ? 0 : texts.counts[i]; n > 0; --n) {
      prompt.vision_positions.push_back(static_cast<std::int32_t>(prompt.ids.size()));
      prompt.ids.push_back(placeholder);
    }
  }
  return prompt;
}

}  // namespace

ComposedPrompt::Side ComposedPrompt::parse_side(std::string_view text) {
  if (text.find(kPromptSlot) == std::string_view::npos) {
    return {.frame = {.head = std::string(text)}};
  }
  return {.frame = split_at(text, kPromptSlot), .has_user_words = true};
}

void ComposedPrompt::add(const Side& side, const std::string& words, PromptText& text) {
  text.add(side.frame, side.has_user_words ? words : "");
}

ComposedPrompt::ComposedPrompt(const ComposedSource& source)
    : has_system_(!source.system_template.empty()), example_end_(source.example_end) {
  const std::string& text = source.prompt;
  if (count(text, kVideoSlot) != 1 || count(text, kPromptSlot) > 1) {
    throw Error(ErrorCode::kBadPreset,
                "model.prompt: \"" + text +
                    "\" must hold {video} once and {prompt} at most once, for example "
                    "\"{video}{prompt}\"");
  }
  check_slots(text, {kVideoSlot, kPromptSlot}, "model.prompt");
  const std::size_t video = text.find(kVideoSlot);
  before_video_ = parse_side(std::string_view(text).substr(0, video));
  after_video_ = parse_side(std::string_view(text).substr(video + kVideoSlot.size()));
  if (!has_system_) return;
  if (count(source.system_template, kSystemSlot) != 1) {
    throw Error(ErrorCode::kBadPreset, "model.system_template: \"" + source.system_template +
                                           "\" must hold {system} once, for example "
                                           "\"{system}\\n\"");
  }
  check_slots(source.system_template, {kSystemSlot}, "model.system_template");
  system_ = split_at(source.system_template, kSystemSlot);
}

PromptIds ComposedPrompt::build(
    const text::Tokenizer& tokenizer, const Conversation& conversation, const ClipShape& clip,
    std::int32_t placeholder,
    const std::function<std::int64_t(const ClipShape&)>& vision_tokens) const {
  if (!conversation.system.empty() && !has_system_) {
    throw Error(ErrorCode::kBadPreset,
                "generation.system: a composed model needs model.system_template, the text around "
                "a system prompt, for example \"{system}\\n\"");
  }
  if (!conversation.examples.empty() && example_end_.empty()) {
    throw Error(ErrorCode::kBadPreset,
                "generation.examples: a composed model needs model.example_end, the text that ends "
                "the caption of an example, for example \"\\n\"");
  }
  const bool has_words =
      !conversation.prompt.empty() ||
      std::any_of(conversation.examples.begin(), conversation.examples.end(),
                  [](const Example& example) { return !example.prompt.empty(); });
  if (has_words && !takes_prompt()) {
    throw Error(
        ErrorCode::kBadPreset,
        "generation.prompt: model.prompt has no slot {prompt}, so that a prompt would change "
        "nothing; add the slot, for example \"{video}{prompt}\"");
  }
  Texts texts;
  const auto add_question = [&](const ClipShape* shape, const std::string& words) {
    add(before_video_, words, texts.texts.back());
    if (shape != nullptr) {
      texts.counts.push_back(vision_tokens(*shape));
      texts.texts.emplace_back();
    }
    add(after_video_, words, texts.texts.back());
  };
  if (!conversation.system.empty()) texts.texts.back().add(system_, conversation.system);
  for (const Example& example : conversation.examples) {
    add_question(example.clip ? &*example.clip : nullptr, example.prompt);
    texts.texts.back().add({.tail = example_end_}, example.caption);
  }
  add_question(&clip, conversation.prompt);
  return join(tokenizer, texts, placeholder);
}

std::int32_t choose_placeholder(const text::Tokenizer& tokenizer) {
  for (const std::string_view token :
       {"<|video_pad|>"sv, "<video>"sv, "<|image_pad|>"sv, "<image>"sv, "<unk>"sv}) {
    if (const auto id = tokenizer.find_token(token)) return *id;
  }
  return tokenizer.bos_id().value_or(0);
}

}  // namespace caption::model
