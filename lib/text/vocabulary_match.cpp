#include "text/vocabulary_match.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "base/counted.h"
#include "base/error.h"
#include "base/json.h"

namespace caption::text {
namespace {

constexpr TokenId kNone = -1;

// What a token contributes to a text; empty for a special token. A byte of SentencePiece's fallback
// differs from the character of the same byte.
std::string content_of(const Tokenizer& tokenizer, TokenId id) {
  std::string bytes = tokenizer.token_bytes(id);
  if (!bytes.empty() && tokenizer.is_byte_fallback(id)) bytes.insert(bytes.begin(), '\0');
  return bytes;
}

void match_ends(std::vector<TokenId>& to, std::span<const TokenId> from_ids,
                std::span<const TokenId> to_ids) {
  if (to_ids.empty()) return;
  for (const TokenId id : from_ids) {
    if (id < 0) continue;
    const auto index = static_cast<std::size_t>(id);
    if (index >= to.size()) to.resize(index + 1, kNone);
    const bool has_same = std::find(to_ids.begin(), to_ids.end(), id) != to_ids.end();
    to[index] = has_same ? id : to_ids.front();
  }
}

}  // namespace

VocabularyMatch match_vocabularies(const Tokenizer& one, std::span<const TokenId> ends,
                                   const Tokenizer& other, std::span<const TokenId> other_ends) {
  VocabularyMatch match;
  match.to_other.assign(static_cast<std::size_t>(one.vocab_size()), kNone);
  match.from_other.assign(static_cast<std::size_t>(other.vocab_size()), kNone);
  std::unordered_map<std::string, TokenId> ids;  // of the other vocabulary, by content
  for (TokenId id = 0; id < other.vocab_size(); ++id) {
    std::string content = content_of(other, id);
    if (!content.empty()) ids.emplace(std::move(content), id);
  }
  std::int64_t num_missing = 0;
  std::string example;
  for (TokenId id = 0; id < one.vocab_size(); ++id) {
    const std::string content = content_of(one, id);
    if (content.empty()) continue;
    const auto found = ids.find(content);
    if (found == ids.end()) {
      if (num_missing++ == 0) example = one.token_bytes(id);
      continue;
    }
    const bool has_same = id < other.vocab_size() && content_of(other, id) == content;
    const TokenId same = has_same ? id : found->second;
    match.to_other[static_cast<std::size_t>(id)] = same;
    TokenId& back = match.from_other[static_cast<std::size_t>(same)];
    if (back == kNone || same == id) back = id;
  }
  if (num_missing > 0) {
    throw Error(ErrorCode::kUsage, "its vocabulary lacks " + counted(num_missing, "token") +
                                       " of the model's " + std::to_string(one.vocab_size()) +
                                       ", the first of them " + json_quote(example));
  }
  match_ends(match.to_other, ends, other_ends);
  match_ends(match.from_other, other_ends, ends);
  return match;
}

}  // namespace caption::text
