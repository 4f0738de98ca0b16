// records/internal/record_index.h: which captions a JSONL output holds, and where in it.
//
// A clip and a prompt have one live record: the last one written for their place (Record::file's
// path, or `video` where there is none). The failure of another content does not end the life of a
// caption at its place: the file may only be empty for a while. A record with `moved_from` also
// ends the life of the one at that place if it has the same content. Lines that are not live stay
// in the file until it is compacted.
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
  std::int64_t offset = 0;       // of the line in the file
  std::uint32_t size_bytes = 0;  // with its newline
  Status status = Status::kOk;
  bool is_machine_failure = false;  // failed for want of memory, time or a whole read
  bool is_accepted = true;          // made with settings that this run accepts
  bool is_from_this_run = false;
  bool is_wanted = false;  // a clip of this run is at its place
  bool is_live = true;
  // 1 + the slot of a caption of another content at the same place, which lives as long; 0: none.
  std::uint32_t shadowed = 0;
  // Keys of the place, of the content and of size and time, each with the prompt. All zero:
  // unknown.
  Hash128 place = {};
  Hash128 content = {};
  Hash128 times = {};
};

// The keys that the slot of a clip and a prompt has.
struct ClipKeys {
  Hash128 place = {};
  Hash128 content = {};
  Hash128 times = {};
};
ClipKeys keys_of(const ClipIdentity& clip, std::string_view prompt);
ClipKeys keys_of(const Record& record);
Hash128 place_key(std::string_view path, std::string_view prompt);

// Whether the slot's record is of this content: compares SHA-256 where the clip has one, else size
// and time. Two files that nobody could read have equal (empty) keys.
bool is_of_content(const RecordSlot& slot, const ClipKeys& clip);

// Whether a run that retries records of these statuses makes the slot's record again.
bool must_remake(const RecordSlot& slot, const std::vector<Status>& retried);

// Whether a clip failed for want of memory, time or a whole read.
bool is_machine_failure(const Record& record);

// Takes about 230 bytes for each record. Only one thread at a time may use it.
class RecordIndex {
 public:
  // The line that begins at `offset` becomes the live record of its place.
  RecordSlot& add(const Record& record, std::int64_t offset, std::int64_t size_bytes);

  // The live record of a place, or null.
  RecordSlot* at_place(const Hash128& place);
  // Calls visit(slot) for the records of the same content wherever they lie.
  template <class Visit>
  void for_each_of_content(const ClipKeys& clip, Visit&& visit) const;
  // Ends the lives of the records at whose place no clip of this run is.
  void drop_unwanted();

  std::int64_t num_live() const { return num_live_; }
  std::int64_t num_superseded() const { return std::ssize(slots_) - num_live_; }
  std::int64_t num_usable() const;                                // live, and not failed
  // Whether a live record is of a clip that could not be read, or failed for want of something.
  bool has_unread() const;
  const std::deque<RecordSlot>& slots() const { return slots_; }  // in the order of the file

 private:
  using Position = std::uint32_t;  // in slots_

  void end_life(const Hash128& place);

  std::int64_t num_live_ = 0;
  std::deque<RecordSlot> slots_;  // grows without copies of what is there
  std::unordered_map<Hash128, Position> by_place_;
  std::unordered_multimap<Hash128, Position> by_content_;  // by both of a slot's content keys
};

template <class Visit>
void RecordIndex::for_each_of_content(const ClipKeys& clip, Visit&& visit) const {
  const Hash128& key = clip.content != Hash128{} ? clip.content : clip.times;
  if (key == Hash128{}) return;
  const auto [begin, end] = by_content_.equal_range(key);
  for (auto it = begin; it != end; ++it) visit(slots_[it->second]);
}

}  // namespace caption::records
