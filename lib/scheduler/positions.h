// scheduler/positions.h: how long a prompt and its output are for the model.
#pragma once

#include <cstdint>

namespace caption::scheduler {

// The positions, and slots of KV pages, that a prompt and its new tokens need. The last new token
// is sampled, but not computed, so it needs none.
constexpr std::int64_t num_positions(std::int64_t num_prompt_tokens, std::int64_t max_new_tokens) {
  return num_prompt_tokens + max_new_tokens - 1;
}

}  // namespace caption::scheduler
