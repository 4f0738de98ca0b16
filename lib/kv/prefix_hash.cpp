#include "kv/prefix_hash.h"

#include <cstddef>

#include "kv/page_pool.h"

namespace caption::kv {
namespace {

// Tells text from vision: an id could have any value.
enum class TokenKind : std::int64_t { kText, kVision };

void append(std::vector<std::int64_t>& words, const Hash128& hash) {
  words.push_back(static_cast<std::int64_t>(hash.high));
  words.push_back(static_cast<std::int64_t>(hash.low));
}

}  // namespace

std::vector<Hash128> hash_prompt_pages(const Hash128& root, const PromptContent& prompt) {
  std::vector<Hash128> hashes;
  Hash128 parent = root;
  std::vector<std::int64_t> words;
  std::size_t num_vision = 0;
  const std::size_t num_pages = prompt.ids.size() / kPageTokens;
  hashes.reserve(num_pages);
  for (std::size_t page = 0; page < num_pages; ++page) {
    words.clear();
    append(words, parent);
    for (std::size_t i = page * kPageTokens; i < (page + 1) * kPageTokens; ++i) {
      const bool is_vision = num_vision < prompt.vision_positions.size() &&
                             static_cast<std::size_t>(prompt.vision_positions[num_vision]) == i;
      if (is_vision) {
        words.push_back(static_cast<std::int64_t>(TokenKind::kVision));
        words.push_back(static_cast<std::int64_t>(num_vision++));
        append(words, prompt.vision_content);
      } else {
        words.push_back(static_cast<std::int64_t>(TokenKind::kText));
        words.push_back(prompt.ids[i]);
      }
    }
    parent = hash_bytes(std::as_bytes(std::span(words)));
    hashes.push_back(parent);
  }
  return hashes;
}

}  // namespace caption::kv
