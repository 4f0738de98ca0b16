#include "text/internal/vocabulary.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/error.h"
#include "base/hash.h"

namespace caption::text {
namespace {

constexpr std::size_t kLeastSlots = 16;

}  // namespace

void Vocabulary::reserve(std::size_t num_texts) {
  CAPTION_CHECK(num_texts <= kMaxTokenId + 1, "room for " + std::to_string(num_texts) + " texts");
  entries_.reserve(num_texts);
  by_id_.reserve(num_texts);
  const std::size_t num_slots = std::bit_ceil(std::max(kLeastSlots, 2 * num_texts));
  if (num_slots > slots_.size()) grow(num_slots);
}

Vocabulary::Inserted Vocabulary::insert(std::string_view text, TokenId id) {
  CAPTION_CHECK(id >= 0 && id <= kMaxTokenId, "token id " + std::to_string(id));
  if (2 * (entries_.size() + 1) > slots_.size()) grow(std::max(kLeastSlots, 2 * slots_.size()));
  const std::uint64_t hash = hash_string(text).low;
  const std::size_t slot = find_slot(text, hash);
  if (slots_[slot].entry != 0) return Inserted::kTextIsKnown;
  const auto idx = static_cast<std::size_t>(id);
  if (idx >= by_id_.size()) by_id_.resize(idx + 1);
  if (by_id_[idx] != 0) return Inserted::kIdIsTaken;
  entries_.push_back(
      {.begin = texts_.size(), .length = static_cast<std::uint32_t>(text.size()), .id = id});
  texts_ += text;
  by_id_[idx] = static_cast<std::uint32_t>(entries_.size());
  slots_[slot] = {.tag = static_cast<std::uint32_t>(hash >> 32), .entry = by_id_[idx]};
  return Inserted::kYes;
}

std::optional<TokenId> Vocabulary::find(std::string_view text) const {
  if (slots_.empty()) return std::nullopt;
  const Slot& slot = slots_[find_slot(text, hash_string(text).low)];
  if (slot.entry == 0) return std::nullopt;
  return entries_[slot.entry - 1].id;
}

std::optional<std::string_view> Vocabulary::text(TokenId id) const {
  if (id < 0 || id >= end_id()) return std::nullopt;
  const std::uint32_t entry = by_id_[static_cast<std::size_t>(id)];
  if (entry == 0) return std::nullopt;
  return text_of(entries_[entry - 1]);
}

// Returns the slot of a text, or the free one where it belongs.
std::size_t Vocabulary::find_slot(std::string_view text, std::uint64_t hash) const {
  const auto tag = static_cast<std::uint32_t>(hash >> 32);
  std::size_t at = static_cast<std::size_t>(hash) & (slots_.size() - 1);
  for (; slots_[at].entry != 0; at = (at + 1) & (slots_.size() - 1)) {
    if (slots_[at].tag == tag && text_of(entries_[slots_[at].entry - 1]) == text) break;
  }
  return at;
}

void Vocabulary::grow(std::size_t num_slots) {
  slots_.assign(num_slots, Slot{});
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const std::string_view text = text_of(entries_[i]);
    const std::uint64_t hash = hash_string(text).low;
    slots_[find_slot(text, hash)] = {.tag = static_cast<std::uint32_t>(hash >> 32),
                                     .entry = static_cast<std::uint32_t>(i + 1)};
  }
}

void PairTable::reserve(std::size_t num_pairs) {
  const std::size_t num_slots = std::bit_ceil(std::max(kLeastSlots, 2 * num_pairs));
  if (num_slots > tags_.size()) grow(num_slots);
}

void PairTable::set(std::uint32_t left, std::uint32_t right, Value value) {
  if (2 * (size_ + 1) > tags_.size()) grow(std::max(kLeastSlots, 2 * tags_.size()));
  const std::uint64_t key = key_of(left, right);
  const std::uint64_t hash = hash_of(key);
  std::size_t at = hash >> shift_;
  while (tags_[at] != kFree && slots_[at].key != key) at = (at + 1) & (tags_.size() - 1);
  if (tags_[at] == kFree) ++size_;
  tags_[at] = tag_of(hash);
  slots_[at] = {.key = key, .value = value};
}

void PairTable::grow(std::size_t num_slots) {
  const std::vector<std::uint8_t> old_tags =
      std::exchange(tags_, std::vector<std::uint8_t>(num_slots, kFree));
  const std::vector<Slot> old_slots = std::exchange(slots_, std::vector<Slot>(num_slots));
  shift_ = 64 - std::countr_zero(num_slots);
  size_ = 0;
  for (std::size_t i = 0; i < old_tags.size(); ++i) {
    if (old_tags[i] == kFree) continue;
    const std::uint64_t key = old_slots[i].key;
    set(static_cast<std::uint32_t>(key >> 32), static_cast<std::uint32_t>(key), old_slots[i].value);
  }
}

}  // namespace caption::text
