#include "records/record_file.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "records/internal/foreign_files.h"
#include "records/internal/moved_record.h"
#include "records/internal/read_records.h"
#include "records/internal/record_index.h"
#include "records/internal/run_memory.h"
#include "records/internal/run_output.h"

namespace caption::records {
namespace {

namespace fs = std::filesystem;

bool is_worse(Status one, Status other) { return static_cast<int>(one) > static_cast<int>(other); }

bool has_no_content(const Record& record) {
  return record.id.empty() && (!record.file.has_value() || !record.file->size_bytes.has_value());
}

// The line of a record of another place with the content of a clip that is looked for.
struct Candidate {
  const RecordSlot* slot;
  std::int64_t offset = 0;
  std::int64_t size_bytes = 0;
  bool is_live = true;
  bool must_be_made = false;  // it is a failure, or is made again by this run
  bool is_claimed = false;    // another clip of this run takes it over
};

struct Choice {
  Earlier earlier = {};
  const Candidate* moved = nullptr;  // whose path `moved_from` is
};

// Prefers the record of a file that no longer exists to that of one that does, so that moving a
// folder with duplicate files leaves no obsolete records. Reads files that records name.
Choice choose(const std::vector<Candidate>& candidates, const OutputFile& file,
              const ClipIdentity& clip, const std::string& video) {
  Choice choice;
  Earlier& earlier = choice.earlier;
  for (const Candidate& one : candidates) {
    const Record record = parse_json_line(file.read(one.offset, one.size_bytes - 1));
    const bool is_own = record.file.has_value() && record.file->path == clip.file.path;
    const bool has_moved = one.is_live && !is_own && is_gone(record);
    if (one.must_be_made) {  // a clip that failed elsewhere may succeed here
      if (has_moved && !earlier.record.has_value()) {
        earlier.moved_from = record.file->path;
        choice.moved = &one;
      }
      continue;
    }
    if (earlier.record.has_value() && !has_moved) continue;
    earlier = {.kind = Earlier::Kind::kElsewhere, .record = under_new_name(record, clip, video)};
    // Another clip now occupies the old place.
    if (!one.is_live) earlier.record->moved_from.clear();
    choice.moved = earlier.record->moved_from.empty() ? nullptr : &one;
    if (has_moved) break;
  }
  return choice;
}

// The captions in a file that is about to be replaced, by what the new file has of their clips.
struct OldCaptions {
  std::int64_t num_failed = 0;   // a failure, at the clip's place or of its content, and no caption
  std::int64_t num_unnamed = 0;  // no record
};

// Counts no caption in an output without records of JSON. Throws as MappedFile.
OldCaptions count_old_captions(const fs::path& output, RecordIndex& now) {
  RecordIndex before;
  try {
    read_records({.path = output, .use = FileUse::kReplaced}, {}, before);
  } catch (const Error& error) {
    if (is_of_machine(error.code())) throw;
    return {};
  }
  // Contents of which the new file has a caption, or a failure.
  std::unordered_set<Hash128> captioned, failed;
  for (const RecordSlot& slot : now.slots()) {
    if (!slot.is_live || slot.content == Hash128{}) continue;
    (slot.status == Status::kFailed ? failed : captioned).insert(slot.content);
  }
  OldCaptions counts;
  for (const RecordSlot& old : before.slots()) {
    if (!old.is_live || old.status == Status::kFailed) continue;
    if (captioned.contains(old.content)) continue;  // at this place, or the film has moved
    const RecordSlot* const here = now.at_place(old.place);
    const bool has_failed = here != nullptr && here->status == Status::kFailed;
    if (has_failed || failed.contains(old.content)) {
      ++counts.num_failed;
    } else if (here == nullptr) {
      ++counts.num_unnamed;
    }
  }
  return counts;
}

}  // namespace

struct RecordFile::State {
  State(const fs::path& path, Format the_format, const Manifest& now, Existing existing,
        const Retry& the_retry)
      : format(the_format),
        retry(the_retry),
        output(path, format, now, existing, retry, index),
        num_found(index.num_live()) {}

  bool must_remake(const RecordSlot& slot) const {
    return records::must_remake(slot, retry.statuses);
  }
  Record record_of(const RecordSlot& slot) const {
    return parse_json_line(output.file().read(slot.offset, slot.size_bytes - 1));
  }
  std::vector<Candidate> candidates(const ClipKeys& keys, const RecordSlot* here) const;
  bool claim(const RecordSlot& slot);
  // Whether the record of the slot is better than `record` and must be kept.
  bool stays(const RecordSlot* slot, const Record& record) const;
  // Appends to the file and updates the index. `is_elsewhere`: the file has the caption already.
  void write(const Record& record, bool is_elsewhere);
  void drop_unwanted();
  bool may_replace_output();

  const Format format;
  const Retry retry;
  std::mutex mutex;   // guards the members below
  RecordIndex index;  // used for JSONL
  RunMemory memory;   // used for csv and txt
  RunOutput output;
  std::unordered_set<const RecordSlot*> claimed;  // records that clips of this run take over
  // Failures of this run that did not replace an earlier caption, by place.
  std::unordered_map<Hash128, Record> kept_failures;
  const std::int64_t num_found;
  std::int64_t num_usable = 0;  // captions written by this run
  // Clips of this run that could not be read, and machine failures (is_machine_failure()).
  std::int64_t num_unread = 0;
  std::int64_t num_dropped = 0;  // captions of other clips in the file that was replaced
};

RecordFile::RecordFile(const fs::path& path, Format format, const Manifest& manifest,
                       Existing existing, const Retry& retry) {
  refuse_special_file(path);
  state_ = std::make_unique<State>(real_path(path), format, manifest, existing, retry);
}

RecordFile::~RecordFile() = default;

Earlier RecordFile::find(const ClipIdentity& clip, const std::string& video,
                         std::string_view caption) {
  State& state = *state_;
  if (state.format != Format::kJsonl) return state.memory.find(clip, video, caption);
  const ClipKeys keys = keys_of(clip, caption);
  for (;;) {
    std::vector<Candidate> candidates;
    std::optional<Record> replaced;
    {
      const std::lock_guard lock(state.mutex);
      RecordSlot* const here = state.index.at_place(keys.place);
      if (here != nullptr) here->is_wanted = true;
      if (here != nullptr && is_of_content(*here, keys) && !state.must_remake(*here)) {
        return {.kind = Earlier::Kind::kFinished, .status = here->status};
      }
      // Without a digest, another file of the same size and time may be a different video.
      if (clip.id.empty()) return {};
      candidates = state.candidates(keys, here);
      if (const ReplacedRecords* const old = state.output.replaced()) {
        replaced = old->find(keys, state.retry.statuses);
      }
    }
    // Files are read without the lock: other threads go on with their clips.
    Choice choice = choose(candidates, state.output.file(), clip, video);
    const Candidate* const moved = choice.moved;
    Earlier& earlier = choice.earlier;
    if (earlier.kind == Earlier::Kind::kNone && replaced.has_value()) {
      earlier.kind = Earlier::Kind::kElsewhere;
      earlier.record = under_new_name(*replaced, clip, video);
      earlier.record->moved_from = std::exchange(earlier.moved_from, {});
    }
    if (moved == nullptr || moved->is_claimed || state.claim(*moved->slot)) return earlier;
  }
}

// Returns at most 64 records of the content at other places than that of `here`: those that no clip
// has claimed, or a claimed one.
std::vector<Candidate> RecordFile::State::candidates(const ClipKeys& keys,
                                                     const RecordSlot* here) const {
  std::vector<Candidate> candidates;
  const RecordSlot* taken = nullptr;
  const auto add = [&](const RecordSlot& slot, bool is_claimed) {
    const bool must_be_made = must_remake(slot) || slot.status == Status::kFailed;
    if (must_be_made && !slot.is_live) return;
    candidates.push_back({.slot = &slot,
                          .offset = slot.offset,
                          .size_bytes = slot.size_bytes,
                          .is_live = slot.is_live,
                          .must_be_made = must_be_made,
                          .is_claimed = is_claimed});
  };
  int num_left = 64;                                         // each costs a read and a stat
  index.find_of_content(keys, [&](const RecordSlot& slot) {  // returns whether the search ends
    if (&slot == here) return false;
    if (claimed.contains(&slot)) {
      taken = &slot;
      return false;
    }
    add(slot, false);
    return --num_left == 0;
  });
  if (candidates.empty() && taken != nullptr) add(*taken, true);
  return candidates;
}

// Clips of one content that are looked for at the same time take over the records of different
// files. Returns false where another clip has taken this one.
bool RecordFile::State::claim(const RecordSlot& slot) {
  const std::lock_guard lock(mutex);
  return slot.is_live && claimed.insert(&slot).second;
}

AppendResult RecordFile::append(const Record& record) {
  State& state = *state_;
  Record own = record;
  own.settings = state.output.settings();
  const std::lock_guard lock(state.mutex);
  bool is_elsewhere = !own.copy_of.empty();  // the caption is in the file under another name
  if (state.format == Format::kJsonl) {
    if (RecordSlot* const slot = state.index.at_place(keys_of(own).place); state.stays(slot, own)) {
      // The clip was tried, so this run does not try it again.
      slot->is_from_this_run = slot->is_wanted = true;
      if (own.status == Status::kFailed) {
        state.kept_failures.insert_or_assign(slot->place, own);
      }
      return AppendResult::kKept;
    }
    // A caption under the old name is better than a failure under the new one and is not replaced.
    const RecordSlot* const old = state.index.at_place(place_key(own.moved_from, caption_key(own)));
    if (old != nullptr && is_worse(own.status, old->status)) own.moved_from.clear();
    // A caption under the old name that is not made again has moved along, and is in the file.
    const bool is_of_old = old != nullptr && old->status != Status::kFailed &&
                           !state.must_remake(*old) && is_of_content(*old, keys_of(own));
    is_elsewhere = is_elsewhere || is_of_old;
  }
  state.write(own, is_elsewhere);
  // The caption that was kept at the old place has moved, so the failure at that place is written
  // now.
  const auto failure = state.kept_failures.find(place_key(own.moved_from, caption_key(own)));
  if (!own.moved_from.empty() && failure != state.kept_failures.end()) {
    state.write(failure->second, false);
    state.kept_failures.erase(failure);
  }
  return AppendResult::kWritten;
}

bool RecordFile::State::stays(const RecordSlot* slot, const Record& record) const {
  if (slot == nullptr || !slot->is_accepted) return false;
  if (!has_no_content(record) && !is_of_content(*slot, keys_of(record))) return false;
  if (slot->status != record.status) return is_worse(record.status, slot->status);
  // A longer part of a truncated caption is better; otherwise the earlier record is kept.
  if (record.status == Status::kTruncated) {
    return record.output_tokens <= record_of(*slot).output_tokens;
  }
  return record.status != Status::kFailed;
}

void RecordFile::State::write(const Record& record, bool is_elsewhere) {
  const bool is_usable = record.status != Status::kFailed;
  const std::string text = format_record(format, record);
  const std::int64_t offset = output.file().size_bytes();
  // What is lost in a power cut and cheap to make again is not synced at once.
  const bool is_cheap = !is_usable || is_elsewhere;
  output.file().append(text, is_cheap ? Durability::kLater : Durability::kNow);
  if (format == Format::kJsonl) {
    // Unreadable files are not looked up again, so they are not indexed: a million of them cost no
    // memory.
    const bool is_new_place = index.at_place(keys_of(record).place) == nullptr;
    if (is_usable || !has_no_content(record) || !is_new_place) {
      index.add_own(record, offset, std::ssize(text));
    }
  } else {
    memory.add(record);
  }
  if (is_usable) ++num_usable;
  if (!is_usable && (has_no_content(record) || is_machine_failure(record))) ++num_unread;
}

void RecordFile::sync() { state_->output.sync(); }

void RecordFile::note_unread() {
  const std::lock_guard lock(state_->mutex);
  ++state_->num_unread;
}

RecordFile::Ending RecordFile::finish() {
  State& state = *state_;
  sync();
  const std::lock_guard lock(state.mutex);
  const bool is_beside = state.output.is_beside();
  if (is_beside) state.drop_unwanted();
  if (state.format == Format::kJsonl) state.output.drop_superseded_lines(state.index);
  if (!is_beside) return Ending::kInPlace;
  if (!state.may_replace_output()) return Ending::kOldFileStays;
  OldCaptions old;
  if (state.format == Format::kJsonl) old = count_old_captions(state.output.output(), state.index);
  if (old.num_failed > 0) return Ending::kOldHasCaptions;
  state.output.take_place_of_output();
  state.num_dropped = old.num_unnamed;
  return Ending::kInPlace;
}

// An interrupted run may have left records of clips that are not part of this run.
void RecordFile::State::drop_unwanted() {
  const std::int64_t before = index.num_live();
  index.drop_unwanted();
  const std::int64_t dropped = before - index.num_live();
  if (dropped == 0) return;
  log_warning("records", output.file().path().string() + ": " + counted(dropped, "record") +
                             " of clips or prompts that this run does not name, from the "
                             "--overwrite that was interrupted, " +
                             (dropped == 1 ? "is" : "are") + " dropped");
}

// Whether there are captions, and every clip of the run was read.
bool RecordFile::State::may_replace_output() {
  const bool has_captions = num_usable > 0 || index.num_usable() > 0;
  return has_captions && num_unread == 0 && !index.has_unread();
}

bool RecordFile::is_beside() const { return state_->output.is_beside(); }

const fs::path& RecordFile::written_path() const { return state_->output.file().path(); }

std::int64_t RecordFile::num_found() const { return state_->num_found; }

std::int64_t RecordFile::num_dropped() const { return state_->num_dropped; }

}  // namespace caption::records
