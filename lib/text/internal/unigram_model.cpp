#include "text/internal/unigram_model.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/internal/byte_piece.h"

namespace caption::text {
namespace {

// Far above the trie of the largest published vocabulary (256,000 tokens), and bounds its memory to
// 300 MB.
constexpr std::uint32_t kMaxNodes = 1 << 23;

// A character that the vocabulary lacks scores this much less than the worst token.
constexpr double kUnknownPenalty = 10.0;

}  // namespace

UnigramModel::UnigramModel(UnigramSpec spec, const Vocabulary& vocabulary)
    : vocabulary_(vocabulary), spec_(std::move(spec)) {
  CAPTION_CHECK(spec_.scores.size() == vocabulary_.size() &&
                    static_cast<std::size_t>(vocabulary_.end_id()) == vocabulary_.size(),
                "a score for each text");
  unknown_score_ = *std::min_element(spec_.scores.begin(), spec_.scores.end()) - kUnknownPenalty;
  std::uint32_t num_nodes = 1;
  for (TokenId id = 0; id < vocabulary_.end_id(); ++id) {
    std::uint32_t node = 0;
    const std::string_view text = vocabulary_.text(id).value_or(std::string_view());
    for (std::size_t i = 0; i < text.size(); ++i) {
      const auto byte = static_cast<std::uint8_t>(text[i]);
      const PairTable::Value* found = trie_.find(node, byte);
      if (num_nodes == kMaxNodes) {
        throw Error(ErrorCode::kUnavailable,
                    "the unigram tokenizer's tokens are too long: their "
                    "prefixes are more than " +
                        std::to_string(kMaxNodes));
      }
      PairTable::Value child = found == nullptr ? PairTable::Value{num_nodes++, 0} : *found;
      if (i + 1 == text.size()) child.second = static_cast<std::uint32_t>(id) + 1;
      trie_.set(node, byte, child);
      node = child.first;
    }
  }
  byte_ids_ = find_byte_pieces(vocabulary_);
}

void UnigramModel::tokenize(std::string_view word, ModelScratch* scratch,
                            std::vector<TokenId>* ids) const {
  find_best_path(word, &scratch->nodes);
  // The tokens are found from the last to the first; neighbouring unknown ones are one token.
  std::vector<std::pair<std::size_t, std::size_t>> tokens;  // begin and end, in bytes
  std::size_t run_end = 0;  // of a run of unknown tokens; 0 for none
  for (std::size_t end = word.size(); end > 0;) {
    const ModelScratch::Node& node = scratch->nodes[end];
    const auto begin = static_cast<std::size_t>(node.begin);
    if (node.id == spec_.unknown_id) {
      if (run_end == 0) run_end = end;
    } else {
      if (run_end != 0) tokens.emplace_back(end, run_end);
      run_end = 0;
      tokens.emplace_back(begin, end);
    }
    end = begin;
  }
  if (run_end != 0) tokens.emplace_back(0, run_end);
  for (std::size_t i = tokens.size(); i-- > 0;) {
    append_token(word.substr(tokens[i].first, tokens[i].second - tokens[i].first), ids);
  }
}

void UnigramModel::find_best_path(std::string_view word,
                                  std::vector<ModelScratch::Node>* nodes) const {
  nodes->assign(word.size() + 1, {});
  const auto offer = [&](std::size_t begin, std::size_t end, double score, TokenId id) {
    ModelScratch::Node& node = (*nodes)[end];
    if (node.begin >= 0 && !(score > node.score)) return;
    node = {.score = score, .begin = static_cast<std::int64_t>(begin), .id = id};
  };
  for (std::size_t begin = 0; begin < word.size();) {
    const double score = (*nodes)[begin].score;
    const std::size_t length = utf8_length(word[begin]);
    bool has_character = false;
    std::uint32_t at = 0;
    for (std::size_t end = begin; end < word.size();) {
      const PairTable::Value* found = trie_.find(at, static_cast<std::uint8_t>(word[end]));
      if (found == nullptr) break;
      at = found->first;
      ++end;
      if (found->second == 0) continue;
      const auto id = static_cast<TokenId>(found->second - 1);
      offer(begin, end, spec_.scores[static_cast<std::size_t>(id)] + score, id);
      has_character = has_character || end - begin == length;
    }
    if (!has_character) {
      offer(begin, begin + length, unknown_score_ + score, spec_.unknown_id);
    }
    begin += length;
  }
}

void UnigramModel::append_token(std::string_view token, std::vector<TokenId>* ids) const {
  if (const auto id = vocabulary_.find(token)) {
    ids->push_back(*id);
    return;
  }
  const auto id_of = [&](char c) { return byte_ids_[static_cast<std::uint8_t>(c)]; };
  const bool has_bytes =
      std::none_of(token.begin(), token.end(), [&](char c) { return id_of(c) < 0; });
  if (!spec_.falls_back_to_bytes || !has_bytes) {
    ids->push_back(spec_.unknown_id);
    return;
  }
  for (const char c : token) ids->push_back(id_of(c));
}

}  // namespace caption::text
