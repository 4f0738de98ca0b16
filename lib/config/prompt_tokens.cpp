#include "config/prompt_tokens.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace caption::config {
namespace {

std::string name_example(std::size_t index) { return "example " + std::to_string(index + 1); }

void require_usable_examples(const model::CaptionModel& model,
                             const model::Conversation& conversation) {
  for (std::size_t i = 0; i < conversation.examples.size(); ++i) {
    const model::Example& example = conversation.examples[i];
    if (!example.clip.has_value()) continue;
    try {
      model.vision_tokens(*example.clip);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kTooLarge) throw;
      throw Error(ErrorCode::kBadPreset,
                  name_example(i) + ": its video cannot be shown: " + error.what());
    }
  }
}

bool can_be_encoded(const model::CaptionModel& model, const std::string& text) {
  try {
    model.tokenizer().encode(text);
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kTooLarge) throw;
    return false;
  }
}

// The first text of the conversation that the tokenizer refuses.
std::string find_refused_text(const model::CaptionModel& model,
                              const model::Conversation& conversation) {
  if (!can_be_encoded(model, conversation.system)) return "the system prompt";
  for (std::size_t i = 0; i < conversation.examples.size(); ++i) {
    const model::Example& example = conversation.examples[i];
    const bool is_own_prompt = example.prompt != conversation.prompt;
    if (is_own_prompt && !can_be_encoded(model, example.prompt)) {
      return "the prompt of " + name_example(i);
    }
    if (!can_be_encoded(model, example.caption)) return "the caption of " + name_example(i);
  }
  return "the prompt";
}

std::int64_t count_ids(const model::CaptionModel& model, const model::Conversation& conversation,
                       const model::ClipShape& clip) {
  try {
    return std::ssize(model.build_prompt(conversation, clip).ids);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kTooLarge) throw;
    throw Error(ErrorCode::kUsage, find_refused_text(model, conversation) +
                                       " cannot be encoded: " + error.what() +
                                       "; use a shorter one, or repair the model's tokenizer.json");
  }
}

}  // namespace

PromptTokens count_prompt_tokens(const model::CaptionModel& model,
                                 const model::Conversation& conversation,
                                 const model::ClipShape& clip) {
  PromptTokens tokens;
  tokens.vision = model.vision_tokens(clip);
  require_usable_examples(model, conversation);
  std::int64_t total = count_ids(model, conversation, clip);
  model::Conversation rest = conversation;
  if (!rest.examples.empty()) {
    rest.examples.clear();
    const std::int64_t without = count_ids(model, rest, clip);
    tokens.examples = total - without;
    total = without;
  }
  if (!rest.system.empty()) {
    rest.system.clear();
    // A family's own system prompt, which the given one replaces, may be longer.
    tokens.system = std::max<std::int64_t>(0, total - count_ids(model, rest, clip));
  }
  tokens.question = total - tokens.system - tokens.vision;
  return tokens;
}

}  // namespace caption::config
