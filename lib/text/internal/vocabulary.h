// text/internal/vocabulary.h: the texts and ids of a tokenizer's tokens, and a table of pairs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace caption::text {

// The largest id that a tokenizer file may use: far above those of the largest published vocabulary
// (2^18), and small enough for a table.
inline constexpr std::int64_t kMaxTokenId = (1 << 20) - 1;

// A one-to-one map between texts and ids. const members are thread-safe.
class Vocabulary {
 public:
  enum class Inserted { kYes, kTextIsKnown, kIdIsTaken };

  // Makes room for this many texts, at most kMaxTokenId + 1; optional.
  void reserve(std::size_t num_texts);
  // 0 <= id <= kMaxTokenId. Changes nothing unless it returns kYes.
  Inserted insert(std::string_view text, TokenId id);

  std::optional<TokenId> find(std::string_view text) const;
  // std::nullopt for an id that no text has.
  std::optional<std::string_view> text(TokenId id) const;
  std::size_t size() const { return entries_.size(); }
  TokenId end_id() const { return static_cast<TokenId>(by_id_.size()); }  // the largest id plus one

 private:
  struct Entry {
    std::uint64_t begin = 0;  // index in texts_
    std::uint32_t length = 0;
    TokenId id = 0;
  };
  struct Slot {
    std::uint32_t tag = 0;    // the upper half of the text's hash
    std::uint32_t entry = 0;  // index plus one; 0 is a free slot
  };

  std::string_view text_of(const Entry& entry) const {
    return std::string_view(texts_).substr(entry.begin, entry.length);
  }
  std::size_t find_slot(std::string_view text, std::uint64_t hash) const;
  void grow(std::size_t num_slots);

  std::string texts_;  // one after the other
  std::vector<Entry> entries_;
  std::vector<Slot> slots_;           // open addressing, a power of two of them, at most half full
  std::vector<std::uint32_t> by_id_;  // entry index plus one; 0 for an id without a text
};

// A map from pairs of 32-bit numbers to pairs of 32-bit numbers. const members are thread-safe.
class PairTable {
 public:
  struct Value {
    std::uint32_t first = 0;
    std::uint32_t second = 0;
  };

  void reserve(std::size_t num_pairs);
  // A key that is set again has the last value.
  void set(std::uint32_t left, std::uint32_t right, Value value);
  // nullptr when the pair is not there. Most pairs that are asked for are not, which the tags tell:
  // they are an eighth as large as the rest and stay in the cache.
  const Value* find(std::uint32_t left, std::uint32_t right) const {
    if (tags_.empty()) return nullptr;
    const std::uint64_t key = key_of(left, right);
    const std::uint64_t hash = hash_of(key);
    const std::uint8_t tag = tag_of(hash);
    for (std::size_t at = hash >> shift_;; at = (at + 1) & (tags_.size() - 1)) {
      if (tags_[at] == kFree) return nullptr;
      if (tags_[at] == tag && slots_[at].key == key) return &slots_[at].value;
    }
  }

 private:
  static constexpr std::uint8_t kFree = 0;
  struct Slot {
    std::uint64_t key = 0;
    Value value;
  };

  static std::uint64_t key_of(std::uint32_t left, std::uint32_t right) {
    return std::uint64_t{left} << 32 | right;
  }
  // Multiplicative hashing: the high bits, which choose the slot, depend on all bits of the key.
  static std::uint64_t hash_of(std::uint64_t key) {
    const std::uint64_t folded = key ^ (key >> 32) * 0x9E3779B97F4A7C15u;
    return folded * 0xD6E8FEB86659FD93u;
  }
  static std::uint8_t tag_of(std::uint64_t hash) {
    return static_cast<std::uint8_t>(hash >> 24) | 1;
  }
  void grow(std::size_t num_slots);

  std::vector<std::uint8_t> tags_;  // open addressing, a power of two of them, at most half full
  std::vector<Slot> slots_;         // one for each tag
  std::size_t size_ = 0;
  int shift_ = 64;  // 64 - log2(tags_.size())
};

}  // namespace caption::text
