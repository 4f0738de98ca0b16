// config/prompt_tokens.h: what the tokens of a prompt are for.
#pragma once

#include <cstdint>

#include "model/caption_model.h"

namespace caption::config {

struct PromptTokens {
  std::int64_t vision = 0;    // vision tokens of the clip
  std::int64_t question = 0;  // tokens of the clip's prompt and of the template around it
  std::int64_t system = 0;    // tokens that a prompt has more of because of the system prompt
  std::int64_t examples = 0;  // tokens of the examples, their vision tokens included

  std::int64_t total() const { return vision + question + system + examples; }
};

// Counts the tokens of the model's prompt for a conversation about `clip`. Throws Error(kUsage) for
// text that the tokenizer cannot encode within its limits, and Error(kBadPreset) for an example
// whose frames the model cannot take, both with what of the conversation it is; else as
// CaptionModel::build_prompt().
PromptTokens count_prompt_tokens(const model::CaptionModel& model,
                                 const model::Conversation& conversation,
                                 const model::ClipShape& clip);

}  // namespace caption::config
