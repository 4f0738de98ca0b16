// kv/prefix_hash.h: 128-bit hashes that identify the content of a prompt's pages.
//
//   hash(page i) = SHA-256(hash(page i - 1), its 16 tokens)      hash(page -1) = `root`
// cut to 128 bits. A text token enters with its id, a vision token with the hash of the content
// that it was made of and its index among that content's tokens. The root identifies everything
// else that decides the bits of K and V: model, adapter, page dtype, CPU tier. Hashes are chained
// because K and V of a token depend on all tokens before it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/hash.h"

namespace caption::kv {

// Consecutive vision tokens of a prompt that were made of one content.
struct VisionContent {
  std::int64_t num_tokens = 0;
  Hash128 content = {};
};

struct PromptContent {
  std::span<const std::int32_t> ids;               // token ids, including placeholders
  std::span<const std::int32_t> vision_positions;  // ascending, in ids
  // Hash of what the vision tokens after those of `leading` were made of.
  Hash128 vision_content = {};
  std::span<const VisionContent> leading = {};  // contents of the first vision tokens
};

// Returns one hash for every full page of the prompt.
std::vector<Hash128> hash_prompt_pages(const Hash128& root, const PromptContent& prompt);

// Returns the hash of the first `num_tokens` tokens of the prompt, which must end inside a page:
// prompts that share these tokens and continue differently have the same hash. `pages` is
// hash_prompt_pages() of the prompt.
Hash128 hash_prompt_part(const Hash128& root, const PromptContent& prompt,
                         std::span<const Hash128> pages, std::int64_t num_tokens);

}  // namespace caption::kv
