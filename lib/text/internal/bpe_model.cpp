#include "text/internal/bpe_model.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "text/internal/byte_level.h"
#include "text/internal/byte_piece.h"

namespace caption::text {
namespace {

// Up to this many symbols a linear search for the best pair is faster than a heap.
constexpr std::size_t kShortWord = 48;

constexpr std::uint32_t kNoRank = ~std::uint32_t{0};
constexpr std::uint32_t kEnd = ~std::uint32_t{0};  // no neighbour

constexpr std::string_view kMark = "\u2581";

// The ids of the bytes by their names of text/internal/byte_level.h; -1 where there is none.
std::array<TokenId, 256> find_byte_level(const Vocabulary& vocabulary) {
  std::array<TokenId, 256> ids{};
  for (std::size_t byte = 0; byte < ids.size(); ++byte) {
    ids[byte] = vocabulary.find(byte_level_char(static_cast<std::uint8_t>(byte))).value_or(-1);
  }
  return ids;
}

}  // namespace

BpeModel::BpeModel(const BpeSpec& spec, const Vocabulary& vocabulary)
    : alphabet_(spec.alphabet),
      vocabulary_(vocabulary),
      unknown_id_(spec.unknown_id),
      fuses_unknown_(spec.fuses_unknown),
      falls_back_to_bytes_(spec.falls_back_to_bytes),
      ignores_merges_(spec.ignores_merges) {
  merges_.reserve(spec.merges.size());
  for (std::size_t rank = 0; rank < spec.merges.size(); ++rank) {
    const BpeSpec::Merge& merge = spec.merges[rank];
    merges_.set(static_cast<std::uint32_t>(merge.left), static_cast<std::uint32_t>(merge.right),
                {.first = static_cast<std::uint32_t>(rank),
                 .second = static_cast<std::uint32_t>(merge.merged)});
  }
  byte_ids_ = alphabet_ == BpeSpec::Alphabet::kBytes ? find_byte_level(vocabulary_)
                                                     : find_byte_pieces(vocabulary_);
  if (alphabet_ == BpeSpec::Alphabet::kBytes) return;
  bmp_ids_.assign(0x10000, -1);
  for (TokenId id = 0; id < vocabulary_.end_id(); ++id) {
    const std::string_view text = vocabulary_.text(id).value_or(std::string_view());
    if (text.empty() || text.size() > 3 || text.size() != utf8_length(text[0])) continue;
    std::size_t length = 0;
    bmp_ids_[character_at(text, 0, &length)] = id;
  }
  find_split_mark(spec);
}

void BpeModel::find_split_mark(const BpeSpec& spec) {
  if (ignores_merges_ || find_character(kMark) < 0) return;
  const auto has_inner_mark = [&](const BpeSpec::Merge& merge) {
    std::string_view text = vocabulary_.text(merge.merged).value_or(std::string_view());
    while (text.starts_with(kMark)) text.remove_prefix(kMark.size());
    return text.find(kMark) != std::string_view::npos;
  };
  splits_at_mark_ = std::none_of(spec.merges.begin(), spec.merges.end(), has_inner_mark);
}

void BpeModel::tokenize(std::string_view word, ModelScratch* scratch,
                        std::vector<TokenId>* ids) const {
  if (ignores_merges_) {
    std::string_view name = word;
    if (alphabet_ == BpeSpec::Alphabet::kBytes) {
      scratch->text.clear();
      append_byte_level(word, &scratch->text);
      name = scratch->text;
    }
    if (const auto id = vocabulary_.find(name)) {
      ids->push_back(*id);
      return;
    }
  }
  if (!splits_at_mark_) {
    tokenize_part(word, scratch, ids);
    return;
  }
  while (!word.empty()) {
    std::size_t end = word.starts_with(kMark) ? kMark.size() : 0;
    while (end > 0 && word.substr(end).starts_with(kMark)) end += kMark.size();
    end = std::min(word.find(kMark, end), word.size());
    tokenize_part(word.substr(0, end), scratch, ids);
    word.remove_prefix(end);
  }
}

void BpeModel::tokenize_part(std::string_view word, ModelScratch* scratch,
                             std::vector<TokenId>* ids) const {
  scratch->symbols.clear();
  if (alphabet_ == BpeSpec::Alphabet::kBytes) {
    start_with_bytes(word, &scratch->symbols);
  } else {
    start_with_characters(word, &scratch->symbols);
  }
  if (scratch->symbols.size() <= kShortWord) {
    merge_short(scratch, ids);
  } else {
    merge_long(scratch, ids);
  }
}

void BpeModel::start_with_bytes(std::string_view word, std::vector<TokenId>* symbols) const {
  bool after_unknown = false;
  for (const char c : word) {
    const TokenId id = byte_ids_[static_cast<std::uint8_t>(c)];
    if (id >= 0) {
      symbols->push_back(id);
    } else if (unknown_id_ && !(after_unknown && fuses_unknown_)) {
      symbols->push_back(*unknown_id_);
    }
    after_unknown = id < 0;
  }
}

TokenId BpeModel::find_character(std::string_view character) const {
  std::size_t length = 0;
  if (character.size() <= 3) return bmp_ids_[character_at(character, 0, &length)];
  return vocabulary_.find(character).value_or(-1);
}

bool BpeModel::append_bytes(std::string_view character, std::vector<TokenId>* symbols) const {
  const auto id_of = [&](char c) { return byte_ids_[static_cast<std::uint8_t>(c)]; };
  if (std::any_of(character.begin(), character.end(), [&](char c) { return id_of(c) < 0; })) {
    return false;
  }
  for (const char c : character) symbols->push_back(id_of(c));
  return true;
}

void BpeModel::start_with_characters(std::string_view word, std::vector<TokenId>* symbols) const {
  // As in the reference, an unknown token stands where its run ends, after the byte tokens of the
  // characters that do not end the run.
  bool has_unknown = false;
  for (std::size_t pos = 0; pos < word.size();) {
    const std::string_view character = word.substr(pos, utf8_length(word[pos]));
    pos += character.size();
    const TokenId id = find_character(character);
    if (id >= 0) {
      if (has_unknown) symbols->push_back(*unknown_id_);
      has_unknown = false;
      symbols->push_back(id);
      continue;
    }
    if (falls_back_to_bytes_ && append_bytes(character, symbols)) continue;
    if (!unknown_id_) continue;
    if (has_unknown && !fuses_unknown_) symbols->push_back(*unknown_id_);
    has_unknown = true;
  }
  if (has_unknown) symbols->push_back(*unknown_id_);
}

void BpeModel::merge_short(ModelScratch* scratch, std::vector<TokenId>* ids) const {
  const std::vector<TokenId>& symbols = scratch->symbols;
  std::array<TokenId, kShortWord> parts{};
  std::array<std::uint32_t, kShortWord> ranks{};  // rank of the pair of a part and the next one
  std::array<TokenId, kShortWord> merged{};       // what that pair becomes
  std::size_t size = symbols.size();
  std::copy(symbols.begin(), symbols.end(), parts.begin());
  const auto look_up = [&](std::size_t i) {
    const PairTable::Value* found = i + 1 < size ? find_merge(parts[i], parts[i + 1]) : nullptr;
    ranks[i] = found == nullptr ? kNoRank : found->first;
    merged[i] = found == nullptr ? -1 : static_cast<TokenId>(found->second);
  };
  for (std::size_t i = 0; i < size; ++i) look_up(i);
  while (size > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < size; ++i) {
      if (ranks[i] < ranks[best]) best = i;
    }
    if (ranks[best] == kNoRank) break;
    parts[best] = merged[best];
    --size;
    for (std::size_t i = best + 1; i < size; ++i) {
      parts[i] = parts[i + 1];
      ranks[i] = ranks[i + 1];
      merged[i] = merged[i + 1];
    }
    look_up(best);
    if (best > 0) look_up(best - 1);
  }
  ids->insert(ids->end(), parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(size));
}

void BpeModel::merge_long(ModelScratch* scratch, std::vector<TokenId>* ids) const {
  std::vector<ModelScratch::Symbol>& list = scratch->list;
  std::vector<ModelScratch::Candidate>& heap = scratch->heap;
  CAPTION_CHECK(scratch->symbols.size() < kEnd, "a word of 4 GiB");
  const auto size = static_cast<std::uint32_t>(scratch->symbols.size());
  list.clear();
  heap.clear();
  for (std::uint32_t i = 0; i < size; ++i) {
    list.push_back({.id = scratch->symbols[i],
                    .previous = i == 0 ? kEnd : i - 1,
                    .next = i + 1 == size ? kEnd : i + 1});
  }
  const auto later = [](const ModelScratch::Candidate& a, const ModelScratch::Candidate& b) {
    return a.order > b.order;
  };
  const auto add = [&](std::uint32_t left) {
    const std::uint32_t right = list[left].next;
    if (right == kEnd) return false;
    const PairTable::Value* found = find_merge(list[left].id, list[right].id);
    if (found == nullptr) return false;
    heap.push_back({.order = std::uint64_t{found->first} << 32 | left,
                    .merged = static_cast<TokenId>(found->second)});
    return true;
  };
  for (std::uint32_t i = 0; i < size; ++i) add(i);
  std::make_heap(heap.begin(), heap.end(), later);
  const auto push = [&](std::uint32_t left) {
    if (add(left)) std::push_heap(heap.begin(), heap.end(), later);
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const ModelScratch::Candidate best = heap.back();
    heap.pop_back();
    const auto left = static_cast<std::uint32_t>(best.order);
    const std::uint32_t right = list[left].next;
    if (list[left].id < 0 || right == kEnd) continue;
    // A candidate is out of date when one of its symbols was merged since.
    const PairTable::Value* found = find_merge(list[left].id, list[right].id);
    if (found == nullptr || static_cast<TokenId>(found->second) != best.merged) continue;
    list[left].id = best.merged;
    list[right].id = -1;
    list[left].next = list[right].next;
    if (list[left].next != kEnd) list[list[left].next].previous = left;
    if (list[left].previous != kEnd) push(list[left].previous);
    push(left);
  }
  for (const ModelScratch::Symbol& symbol : list) {
    if (symbol.id >= 0) ids->push_back(symbol.id);
  }
}

}  // namespace caption::text
