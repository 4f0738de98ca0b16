#include "kv/prefix_hash.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "base/error.h"
#include "base/sha256.h"
#include "kv/page_pool.h"

namespace caption::kv {
namespace {

// Distinguishes text from vision tokens in the hash, since a text id can have any value.
enum class TokenKind : std::int64_t { kText, kVision };

void append(std::vector<std::int64_t>& words, const Hash128& hash) {
  words.push_back(static_cast<std::int64_t>(hash.high));
  words.push_back(static_cast<std::int64_t>(hash.low));
}

// Appends what identifies the vision token with this index.
void append_vision(std::vector<std::int64_t>& words, const PromptContent& prompt,
                   std::size_t index) {
  auto offset = static_cast<std::int64_t>(index);
  const Hash128* content = &prompt.vision_content;
  for (const VisionContent& part : prompt.leading) {
    if (offset < part.num_tokens) {
      content = &part.content;
      break;
    }
    offset -= part.num_tokens;
  }
  words.push_back(static_cast<std::int64_t>(TokenKind::kVision));
  words.push_back(offset);
  append(words, *content);
}

// Hashes the tokens [first, end) that follow `parent`. num_vision is the number of vision tokens
// before `first`; on return, before `end`.
Hash128 hash_tokens(const Hash128& parent, const PromptContent& prompt, std::size_t first,
                    std::size_t end, std::size_t& num_vision, std::vector<std::int64_t>& words) {
  words.clear();
  append(words, parent);
  for (std::size_t i = first; i < end; ++i) {
    const bool is_vision = num_vision < prompt.vision_positions.size() &&
                           static_cast<std::size_t>(prompt.vision_positions[num_vision]) == i;
    if (is_vision) {
      append_vision(words, prompt, num_vision++);
    } else {
      words.push_back(static_cast<std::int64_t>(TokenKind::kText));
      words.push_back(prompt.ids[i]);
    }
  }
  return sha256_of(std::as_bytes(std::span(words))).short_key();
}

}  // namespace

std::vector<Hash128> hash_prompt_pages(const Hash128& root, const PromptContent& prompt) {
  std::vector<Hash128> hashes;
  std::vector<std::int64_t> words;
  std::size_t num_vision = 0;
  const std::size_t num_pages = prompt.ids.size() / kPageTokens;
  hashes.reserve(num_pages);
  for (std::size_t page = 0; page < num_pages; ++page) {
    const Hash128& parent = hashes.empty() ? root : hashes.back();
    hashes.push_back(hash_tokens(parent, prompt, page * kPageTokens, (page + 1) * kPageTokens,
                                 num_vision, words));
  }
  return hashes;
}

Hash128 hash_prompt_part(const Hash128& root, const PromptContent& prompt,
                         std::span<const Hash128> pages, std::int64_t num_tokens) {
  const auto end = static_cast<std::size_t>(num_tokens);
  const std::size_t page = end / kPageTokens;
  CAPTION_CHECK(end % kPageTokens != 0 && end <= prompt.ids.size() && page <= pages.size(),
                "prefix hash: a part of " + std::to_string(num_tokens) + " tokens");
  const std::size_t first = page * kPageTokens;
  auto num_vision = static_cast<std::size_t>(std::lower_bound(prompt.vision_positions.begin(),
                                                              prompt.vision_positions.end(),
                                                              static_cast<std::int32_t>(first)) -
                                             prompt.vision_positions.begin());
  std::vector<std::int64_t> words;
  return hash_tokens(page == 0 ? root : pages[page - 1], prompt, first, end, num_vision, words);
}

}  // namespace caption::kv
