#include "text/internal/unigram_model.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/internal/byte_piece.h"

namespace caption::text {
namespace {

// A character that the vocabulary lacks scores this much less than the worst token.
constexpr double kUnknownPenalty = 10.0;

}  // namespace

UnigramModel::UnigramModel(UnigramSpec spec, const Vocabulary& vocabulary)
    : vocabulary_(vocabulary), spec_(std::move(spec)) {
  CAPTION_CHECK(spec_.scores.size() == vocabulary_.size() &&
                    static_cast<std::size_t>(vocabulary_.end_id()) == vocabulary_.size(),
                "a score for each text");
  unknown_score_ = *std::min_element(spec_.scores.begin(), spec_.scores.end()) - kUnknownPenalty;
  std::vector<PrefixTree::Entry> entries;
  entries.reserve(vocabulary_.size());
  for (TokenId id = 0; id < vocabulary_.end_id(); ++id) {
    const std::string_view text = vocabulary_.text(id).value_or(std::string_view());
    if (!text.empty()) entries.push_back({.text = text, .id = id});
  }
  tree_ = PrefixTree(std::move(entries));
  byte_ids_ = find_byte_pieces(vocabulary_);
}

void UnigramModel::tokenize(std::string_view word, ModelScratch* scratch,
                            std::vector<TokenId>* ids) const {
  find_best_path(word, &scratch->nodes);
  // The tokens are found from the last to the first; neighbouring unknown ones are one token.
  const auto first = static_cast<std::ptrdiff_t>(ids->size());
  std::size_t run_end = 0;  // end of a run of unknown tokens; 0: there is none
  const auto end_run = [&](std::size_t begin) {
    if (run_end == 0) return;
    const auto run = static_cast<std::ptrdiff_t>(ids->size());
    append_unknown(word.substr(begin, run_end - begin), ids);
    std::reverse(ids->begin() + run, ids->end());
    run_end = 0;
  };
  for (std::size_t end = word.size(); end > 0;) {
    const ModelScratch::Node& node = scratch->nodes[end];
    if (node.id == spec_.unknown_id) {
      if (run_end == 0) run_end = end;
    } else {
      end_run(end);
      ids->push_back(node.id);
    }
    end = static_cast<std::size_t>(node.begin);
  }
  end_run(0);
  std::reverse(ids->begin() + first, ids->end());
}

void UnigramModel::find_best_path(std::string_view word,
                                  std::vector<ModelScratch::Node>* nodes) const {
  nodes->assign(word.size() + 1, {});
  const auto offer = [&](std::size_t begin, std::size_t end, double score, TokenId id) {
    ModelScratch::Node& node = (*nodes)[end];
    if (node.begin >= 0 && !(score > node.score)) return;
    node = {.score = score, .begin = static_cast<std::int32_t>(begin), .id = id};
  };
  for (std::size_t begin = 0; begin < word.size();) {
    const double score = (*nodes)[begin].score;
    const std::size_t length = utf8_length(word[begin]);
    bool has_character = false;
    tree_.for_each_prefix(word.substr(begin), [&](std::size_t size, TokenId id) {
      offer(begin, begin + size, spec_.scores[static_cast<std::size_t>(id)] + score, id);
      has_character = has_character || size == length;
    });
    if (!has_character) {
      offer(begin, begin + length, unknown_score_ + score, spec_.unknown_id);
    }
    begin += length;
  }
}

void UnigramModel::append_unknown(std::string_view characters, std::vector<TokenId>* ids) const {
  if (const auto id = vocabulary_.find(characters)) {
    ids->push_back(*id);
    return;
  }
  const auto id_of = [&](char c) { return byte_ids_[static_cast<std::uint8_t>(c)]; };
  const bool has_bytes =
      std::none_of(characters.begin(), characters.end(), [&](char c) { return id_of(c) < 0; });
  if (!spec_.falls_back_to_bytes || !has_bytes) {
    ids->push_back(spec_.unknown_id);
    return;
  }
  for (const char c : characters) ids->push_back(id_of(c));
}

}  // namespace caption::text
