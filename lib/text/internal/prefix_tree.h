// text/internal/prefix_tree.h: finds all texts of a vocabulary that begin at a place of a word.
// Source: J. Aoe, "An efficient digital search algorithm by using a double-array structure", IEEE
// Transactions on Software Engineering 15 (9), 1989.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tokenizer.h"

namespace caption::text {

// A trie in one array. Immutable and thread-safe. Memory: 12 bytes per prefix, and as a rule less
// than half as many again for slots that no prefix has taken.
class PrefixTree {
 public:
  struct Entry {
    std::string_view text;  // not empty
    TokenId id = 0;
  };

  PrefixTree() : PrefixTree(std::vector<Entry>()) {}
  // The texts differ from each other; they need not outlive the tree. Throws Error(kUnavailable)
  // when their prefixes need more than 2^23 slots.
  explicit PrefixTree(std::vector<Entry> entries);

  std::size_t size_bytes() const { return slots_.size() * sizeof(Slot); }

  // Calls visit(length, id) for each text that `word` begins with, the shortest first. Time:
  // O(length of the longest of them).
  template <class Visit>
  void for_each_prefix(std::string_view word, Visit visit) const {
    std::uint32_t at = 0;
    for (std::size_t i = 0; i < word.size(); ++i) {
      const std::uint32_t child = slots_[at].base + static_cast<std::uint8_t>(word[i]);
      if (slots_[child].parent != at) return;
      at = child;
      if (slots_[at].id >= 0) visit(i + 1, slots_[at].id);
    }
  }

 private:
  static constexpr std::uint32_t kFree = 0xFFFFFFFF;
  static constexpr std::uint32_t kNoParent = 0xFFFFFFFE;  // the root's
  // The child of node n by byte b is the slot slots_[n].base + b when that slot's parent is n. The
  // root is slot 0.
  struct Slot {
    std::uint32_t base = 0;
    std::uint32_t parent = kFree;
    TokenId id = -1;  // the id whose text ends here; -1: none does
  };
  struct Builder;

  std::vector<Slot> slots_;  // 256 slots follow the last node, so that no child lies outside
};

}  // namespace caption::text
