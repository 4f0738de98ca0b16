#include "records/internal/record_index.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/sha256.h"

namespace caption::records {
namespace {

// Each part is terminated by a zero byte, which no path and no digest contains.
Hash128 key_of(std::initializer_list<std::string_view> parts) {
  std::string text;
  for (const std::string_view part : parts) text.append(part) += '\0';
  return sha256_of(text).short_key();
}

Hash128 times_key(const ClipFile& file, std::string_view caption) {
  if (!file.size_bytes.has_value() || !file.modified_ns.has_value()) return {};
  return key_of(
      {"times", std::to_string(*file.size_bytes), std::to_string(*file.modified_ns), caption});
}

}  // namespace

Hash128 place_key(std::string_view path, std::string_view caption) {
  return key_of({"place", path, caption});
}

bool must_remake(const RecordSlot& slot, const std::vector<Status>& retried) {
  if (slot.is_from_this_run) return false;
  return !slot.is_accepted || slot.is_machine_failure ||
         std::find(retried.begin(), retried.end(), slot.status) != retried.end();
}

bool is_machine_failure(const Record& record) {
  if (!record.error.has_value()) return false;
  constexpr ErrorCode kCodes[] = {ErrorCode::kOutOfMemory, ErrorCode::kIo, ErrorCode::kTimeout,
                                  ErrorCode::kUnavailable, ErrorCode::kChanged};
  return std::any_of(std::begin(kCodes), std::end(kCodes),
                     [&](ErrorCode code) { return record.error->code == error_code_name(code); });
}

ClipKeys keys_of(const ClipIdentity& clip, std::string_view caption) {
  return {.place = place_key(clip.file.path, caption),
          .content = clip.id.empty() ? Hash128{} : key_of({"content", clip.id, caption}),
          .times = times_key(clip.file, caption)};
}

ClipKeys keys_of(const Record& record) {
  return keys_of({.file = record.file.value_or(ClipFile{.path = record.video}), .id = record.id},
                 caption_key(record));
}

bool is_of_content(const RecordSlot& slot, const ClipKeys& clip) {
  return clip.content != Hash128{} ? slot.content == clip.content : slot.times == clip.times;
}

RecordSlot& RecordIndex::add(const Record& record, std::int64_t offset, std::int64_t size_bytes) {
  const Position position = add_slot(record, offset, size_bytes);
  RecordSlot& slot = slots_[position];
  if (slot.content != Hash128{}) by_content_.emplace(slot.content, position);
  return slot;
}

RecordSlot& RecordIndex::add_own(const Record& record, std::int64_t offset,
                                 std::int64_t size_bytes) {
  const Position position = add_slot(record, offset, size_bytes);
  RecordSlot& slot = slots_[position];
  slot.is_from_this_run = slot.is_wanted = true;
  if (slot.content != Hash128{} && slot.status != Status::kFailed) {
    own_by_content_.insert_or_assign(slot.content, position);
  }
  return slot;
}

RecordIndex::Position RecordIndex::add_slot(const Record& record, std::int64_t offset,
                                            std::int64_t size_bytes) {
  CAPTION_CHECK(slots_.size() < std::numeric_limits<Position>::max() &&
                    size_bytes <= std::numeric_limits<std::uint32_t>::max(),
                "records: too many records, or too long a line");
  const bool is_failure = record.status == Status::kFailed;
  const ClipKeys keys = keys_of(record);
  Position shadowed = 0;
  RecordSlot* const here = at_place(keys.place);
  if (here != nullptr && is_failure) {
    if (here->status == Status::kFailed) {
      shadowed = std::exchange(here->shadowed, Position{0});
    } else if (!is_of_content(*here, keys)) {
      shadowed = by_place_.at(keys.place) + 1;
      by_place_.erase(keys.place);
    }
  }
  if (here != nullptr && !is_failure && is_of_content(*here, keys)) forget_content(*here);
  end_life(keys.place);
  // Another clip may have taken the old place meanwhile; then its record is kept.
  const Hash128 old_place = place_key(record.moved_from, caption_key(record));
  const RecordSlot* const moved = record.moved_from.empty() ? nullptr : at_place(old_place);
  if (moved != nullptr && is_of_content(*moved, keys)) {
    if (!is_failure) forget_content(*moved);
    end_life(old_place);
  }
  const auto position = static_cast<Position>(slots_.size());
  slots_.push_back({.offset = offset,
                    .size_bytes = static_cast<std::uint32_t>(size_bytes),
                    .status = record.status,
                    .is_machine_failure = is_machine_failure(record),
                    .shadowed = shadowed,
                    .place = keys.place,
                    .content = keys.content,
                    .times = keys.times});
  by_place_[keys.place] = position;
  ++num_live_;
  return position;
}

void RecordIndex::add_damaged(std::int64_t offset, std::int64_t size_bytes) {
  CAPTION_CHECK(slots_.size() < std::numeric_limits<Position>::max() &&
                    size_bytes <= std::numeric_limits<std::uint32_t>::max(),
                "records: too many records, or too long a line");
  slots_.push_back({.offset = offset,
                    .size_bytes = static_cast<std::uint32_t>(size_bytes),
                    .status = Status::kFailed,
                    .is_live = false,
                    .is_damaged = true});
}

RecordSlot* RecordIndex::at_place(const Hash128& place) {
  const auto found = by_place_.find(place);
  return found == by_place_.end() ? nullptr : &slots_[found->second];
}

std::int64_t RecordIndex::num_usable() const {
  return std::count_if(slots_.begin(), slots_.end(), [](const RecordSlot& slot) {
    return slot.is_live && slot.status != Status::kFailed;
  });
}

std::int64_t RecordIndex::num_refused() const {
  return std::count_if(slots_.begin(), slots_.end(),
                       [](const RecordSlot& slot) { return slot.is_live && !slot.is_accepted; });
}

bool RecordIndex::has_unread() const {
  return std::any_of(slots_.begin(), slots_.end(), [](const RecordSlot& slot) {
    const bool has_no_content = slot.content == Hash128{} && slot.times == Hash128{};
    return slot.is_live && slot.status == Status::kFailed &&
           (has_no_content || slot.is_machine_failure);
  });
}

void RecordIndex::end_life(const Hash128& place) {
  const auto found = by_place_.find(place);
  if (found == by_place_.end()) return;
  for (Position next = found->second + 1; next != 0; next = slots_[next - 1].shadowed) {
    slots_[next - 1].is_live = false;
    --num_live_;
  }
  by_place_.erase(found);
}

// The caption of the slot has a better record of the same content.
void RecordIndex::forget_content(const RecordSlot& slot) {
  for (auto it = by_content_.find(slot.content);
       it != by_content_.end() && it->first == slot.content; ++it) {
    if (&slots_[it->second] != &slot) continue;
    by_content_.erase(it);
    return;
  }
}

void RecordIndex::drop_unwanted() {
  for (const RecordSlot& slot : slots_) {
    if (slot.is_live && !slot.is_wanted && at_place(slot.place) == &slot) end_life(slot.place);
  }
}

}  // namespace caption::records
