// kv/prefix_hash.h: what a page of a prompt holds, as 128 bits.
//
//   hash(page i) = SHA-256(hash(page i - 1), its 16 tokens)      hash(page -1) = `root`
//   cut to 128 bits
//   a text token counts as its id; a vision token as (hash of what the vision tokens were made of,
//   its number among them)
// The root stands for all else that decides the bits of K and V: model, adapter, page dtype, CPU
// tier. K and V of a token depend on all tokens before it, hence the chain.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/hash.h"

namespace caption::kv {

struct PromptContent {
  std::span<const std::int32_t> ids;               // placeholders included
  std::span<const std::int32_t> vision_positions;  // ascending, in ids
  Hash128 vision_content = {};                     // of all vision tokens together
};

// One hash for every full page of the prompt.
std::vector<Hash128> hash_prompt_pages(const Hash128& root, const PromptContent& prompt);

// The first `num_tokens` tokens of the prompt where they end inside a page: found again by prompts
// that share these tokens and go on otherwise. `pages` is hash_prompt_pages() of the prompt.
Hash128 hash_prompt_part(const Hash128& root, const PromptContent& prompt,
                         std::span<const Hash128> pages, std::int64_t num_tokens);

}  // namespace caption::kv
