// records/internal/record_index.h: an index of the captions of a JSONL output by place and content.
//
// The place of a record is Record::file's path, or `video` where there is none. A clip, a prompt
// and an adapter have one live record: the last one written for their place. Exception: a failure
// with other content does not supersede the caption at its place, since the file may be damaged
// only temporarily. A record with `moved_from` also supersedes the record at that place if it has
// the same content. Lines that are not live remain in the file until it is compacted.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "records/record.h"
#include "records/sink.h"

namespace caption::records {

struct RecordSlot {
  std::int64_t offset = 0;       // byte offset of the line in the file
  std::uint32_t size_bytes = 0;  // bytes of the line with its newline
  Status status = Status::kOk;
  bool is_machine_failure = false;  // as is_machine_failure()
  bool is_accepted = true;          // made with settings that this run accepts
  bool is_from_this_run = false;
  bool is_wanted = false;  // a clip of this run has this place
  bool is_live = true;
  bool is_damaged = false;  // no record; of no place and no content, and never live
  // 1 + index of the slot of a caption with other content at the same place, which is live as long
  // as this slot is; 0: none.
  std::uint32_t shadowed = 0;
  // Hashes of the path, of the content digest and of size and time, each combined with
  // caption_key().
  // All zero: unknown.
  Hash128 place = {};
  Hash128 content = {};
  Hash128 times = {};
};

// The three keys of a caption, as in RecordSlot; `caption` is its caption_key().
struct ClipKeys {
  Hash128 place = {};
  Hash128 content = {};
  Hash128 times = {};
};
ClipKeys keys_of(const ClipIdentity& clip, std::string_view caption);
ClipKeys keys_of(const Record& record);
Hash128 place_key(std::string_view path, std::string_view caption);

// Whether the slot's record has this content: compares SHA-256 where the clip has one, otherwise
// size and time. Two unreadable files have equal (empty) keys.
bool is_of_content(const RecordSlot& slot, const ClipKeys& clip);

// Whether a run that retries these statuses makes the slot's record again.
bool must_remake(const RecordSlot& slot, const std::vector<Status>& retried);

// Whether a clip failed for lack of memory, by a read error, by a timeout, because its devices
// failed, or because the file changed while it was read.
bool is_machine_failure(const Record& record);

// Memory: about 230 bytes per record. Not thread-safe.
class RecordIndex {
 public:
  // Makes the line that begins at byte `offset` the live record of its place.
  RecordSlot& add(const Record& record, std::int64_t offset, std::int64_t size_bytes);
  // The same for a record of this run: it sets is_from_this_run and is_wanted.
  RecordSlot& add_own(const Record& record, std::int64_t offset, std::int64_t size_bytes);

  // Enters a line that is no record, so that compaction drops it.
  void add_damaged(std::int64_t offset, std::int64_t size_bytes);

  // Returns the live record of a place, or null.
  RecordSlot* at_place(const Hash128& place);
  // Returns the first record of the same content, at any place and also if not live, for which
  // is_wanted(slot) holds, or null: first those of earlier runs, without what records of the same
  // content have superseded, then the last caption of this run. Does not look at those behind it: a
  // hundred thousand clips may have one content.
  template <class IsWanted>
  const RecordSlot* find_of_content(const ClipKeys& clip, IsWanted&& is_wanted) const;
  // Marks as not live all records at places that no clip of this run has.
  void drop_unwanted();

  std::int64_t num_live() const { return num_live_; }
  std::int64_t num_superseded() const { return std::ssize(slots_) - num_live_; }
  std::int64_t num_usable() const;   // live records that have a caption
  std::int64_t num_refused() const;  // live records for which is_accepted is false
  // Whether a live record is of a clip that could not be read, or is a machine failure.
  bool has_unread() const;
  const std::deque<RecordSlot>& slots() const { return slots_; }  // in file order

 private:
  using Position = std::uint32_t;  // index into slots_

  Position add_slot(const Record& record, std::int64_t offset, std::int64_t size_bytes);
  void end_life(const Hash128& place);
  void forget_content(const RecordSlot& slot);

  std::int64_t num_live_ = 0;
  std::deque<RecordSlot> slots_;  // a deque, because growth must not copy or move the slots
  std::unordered_map<Hash128, Position> by_place_;
  // Keyed by RecordSlot::content.
  std::unordered_multimap<Hash128, Position> by_content_;  // records of earlier runs
  std::unordered_map<Hash128, Position> own_by_content_;   // the last caption of this run
};

template <class IsWanted>
const RecordSlot* RecordIndex::find_of_content(const ClipKeys& clip, IsWanted&& is_wanted) const {
  const Hash128& key = clip.content;
  if (key == Hash128{}) return nullptr;
  // equal_range() would go through all of them.
  for (auto it = by_content_.find(key); it != by_content_.end() && it->first == key; ++it) {
    const RecordSlot& slot = slots_[it->second];
    if (is_wanted(slot)) return &slot;
  }
  const auto own = own_by_content_.find(key);
  if (own == own_by_content_.end()) return nullptr;
  const RecordSlot& slot = slots_[own->second];
  return is_wanted(slot) ? &slot : nullptr;
}

}  // namespace caption::records
