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
  CAPTION_CHECK(slots_.size() < std::numeric_limits<Position>::max() &&
                    size_bytes <= std::numeric_limits<std::uint32_t>::max(),
                "records: too many records, or too long a line");
  const ClipKeys keys = keys_of(record);
  Position shadowed = 0;
  RecordSlot* const here = at_place(keys.place);
  if (here != nullptr && record.status == Status::kFailed) {
    if (here->status == Status::kFailed) {
      shadowed = std::exchange(here->shadowed, Position{0});
    } else if (!is_of_content(*here, keys)) {
      shadowed = by_place_.at(keys.place) + 1;
      by_place_.erase(keys.place);
    }
  }
  end_life(keys.place);
  // Another clip may have taken the old place meanwhile; then its record is kept.
  const Hash128 old_place = place_key(record.moved_from, caption_key(record));
  const RecordSlot* const moved = record.moved_from.empty() ? nullptr : at_place(old_place);
  if (moved != nullptr && is_of_content(*moved, keys)) end_life(old_place);
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
  for (const Hash128& key : {keys.content, keys.times}) {
    if (key != Hash128{}) by_content_.emplace(key, position);
  }
  return slots_.back();
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

void RecordIndex::drop_unwanted() {
  for (const RecordSlot& slot : slots_) {
    if (slot.is_live && !slot.is_wanted && at_place(slot.place) == &slot) end_life(slot.place);
  }
}

}  // namespace caption::records
