#include "records/record_file.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "records/file_name.h"
#include "records/internal/damaged_lines.h"
#include "records/internal/output_file.h"
#include "records/internal/read_records.h"
#include "records/internal/record_index.h"
#include "records/internal/replaced_records.h"
#include "records/internal/run_memory.h"
#include "records/internal/same_run.h"

namespace caption::records {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kCopyBytes = 1 << 20;
// The name of a torn line's film is looked for in so many of its first bytes.
constexpr std::int64_t kTornLineBytes = 64 << 10;

fs::path with_suffix(const fs::path& path, const char* suffix) { return path.string() + suffix; }

bool is_worse(Status one, Status other) { return static_cast<int>(one) > static_cast<int>(other); }

bool has_no_content(const Record& record) {
  return record.id.empty() && (!record.file.has_value() || !record.file->size_bytes.has_value());
}

}  // namespace

struct RecordFile::State {
  State(fs::path the_output, Format the_format, const Manifest& now, Existing existing,
        const Retry& the_retry);

  void open_overwriting(const Manifest& now);
  void remove_unfinished_copies();
  void open_in_place(const Manifest& now);
  void finish_swap();
  void start_anew(const Manifest& now);
  void read_records();
  void describe_foreign_records() const;
  void swap();
  void compact();
  void copy_live_lines(OutputFile& target) const;
  bool must_remake(const RecordSlot& slot) const;
  Earlier find_elsewhere(const ClipKeys& keys, const RecordSlot* here, const ClipIdentity& clip,
                         const std::string& video);
  Record record_of(const RecordSlot& slot) const;
  void write(const Record& record);  // appends to the file and updates the index
  // Whether the record of the slot is better than `record` and must be kept.
  bool stays(const RecordSlot* slot, const Record& record) const;

  const fs::path output;
  const Format format;
  const Retry retry;
  std::string settings;  // settings_key() of the records of this run
  Manifest manifest;     // manifest of the file
  // Holds the lock on the old file while the new one is written.
  std::optional<OutputFile> overwritten;
  std::optional<OutputFile> file;  // the file that records are appended to
  std::set<std::string> accepted;  // settings_key() of the runs whose records are valid
  std::int64_t num_found = 0;
  std::int64_t num_usable = 0;  // captions written by this run
  // Clips of this run that could not be read, and machine failures (is_machine_failure()).
  std::int64_t num_unread = 0;

  std::mutex mutex;  // guards index and kept_failures
  // Failures of this run that did not replace an earlier caption, by place.
  std::unordered_map<Hash128, Record> kept_failures;
  RecordIndex index;
  std::optional<ReplacedRecords> replaced;  // only for JSONL that is not overwritten
  RunMemory memory;                         // replaces the index for csv and txt
};

RecordFile::State::State(fs::path the_output, Format the_format, const Manifest& now,
                         Existing existing, const Retry& the_retry)
    : output(std::move(the_output)),
      format(the_format),
      retry(the_retry),
      settings(settings_key(now)),
      manifest(now),
      accepted({settings_key(now)}) {
  // Records of an --overwrite are in FILE.new also where another program has deleted the output.
  const bool has_records = !is_empty_or_missing(output);
  if (existing == Existing::kOverwrite &&
      (has_records || !is_empty_or_missing(with_suffix(output, ".new")))) {
    open_overwriting(now);
  } else {
    open_in_place(now);
  }
}

void RecordFile::State::open_in_place(const Manifest& now) {
  if (is_empty_or_missing(output)) refuse_foreign_manifest(output, now);
  file.emplace(output);
  finish_swap();
  remove_unfinished_copies();
  if (file->size_bytes() == 0) {
    if (format == Format::kJsonl) {
      remove_replaced_records(output);
      replaced.emplace(output, accepted);
    }
    return start_anew(now);
  }
  Manifest there = require_same_run(output, format, now, retry);
  if (note_retry(retry, there, now)) write_manifest(manifest_path(output), there);
  accepted = accepted_keys(there);
  settings = key_of_records(there, now);
  manifest = std::move(there);
  read_records();
  replaced.emplace(output, accepted);
}

// Removes what compact() leaves when it is killed, beside the output and beside FILE.new.
void RecordFile::State::remove_unfinished_copies() {
  fs::remove(with_suffix(output, ".compact"));
  fs::remove(with_suffix(with_suffix(output, ".new"), ".compact"));
}

// Records of an interrupted overwriting run are kept if they are JSONL, were made with the same
// settings and include a caption.
void RecordFile::State::open_overwriting(const Manifest& now) {
  const fs::path path = with_suffix(output, ".new");
  if (!is_empty_or_missing(output)) refuse_foreign_file(output);
  refuse_foreign_manifest(output, now);
  refuse_special_file(path);
  refuse_foreign_manifest(path, now);
  overwritten.emplace(output);
  remove_unfinished_copies();
  file.emplace(path);
  if (file->size_bytes() > 0) {
    refuse_foreign_file(path);
    if (format == Format::kJsonl) refuse_to_lose_captions(path, now);
    const std::optional<Manifest> there = read_manifest(manifest_path(path));
    const bool is_same = there.has_value() && describe_differences(*there, now).empty();
    if (is_same && format == Format::kJsonl) {
      accepted = accepted_keys(*there);
      read_records();
      if (index.num_usable() > 0) {
        settings = key_of_records(*there, now);
        manifest = *there;
        log_info("records", path.string() + ": an --overwrite that was interrupted goes on");
        return;
      }
      index = {};
      num_found = 0;
      accepted = {settings};
    }
    file->truncate(0);
  }
  start_anew(now);
}

void RecordFile::State::start_anew(const Manifest& now) {
  write_manifest(manifest_path(file->path()), now);
  sync_folder(file->path().parent_path());
  const std::string header = format_file_header(format);
  if (!header.empty()) file->append(header, Durability::kNow);
}

// Completes an --overwrite that was killed between its two renames.
void RecordFile::State::finish_swap() {
  if (file->size_bytes() == 0) return;
  const std::optional<fs::path> left = find_left_manifest(output);
  if (!left.has_value()) return;
  fs::rename(*left, manifest_path(output));
  sync_folder(output.parent_path());
}

// Adds the records of earlier runs to the index, ends a last line that lacks its end alone, and
// cuts off a torn line.
void RecordFile::State::read_records() {
  const FileUse use = overwritten ? FileUse::kBeside : FileUse::kOutput;
  const std::int64_t complete_bytes =
      records::read_records({.path = file->path(), .use = use}, accepted, index);
  if (complete_bytes > file->size_bytes()) file->append("\n", Durability::kNow);
  num_found = index.num_live();
  describe_foreign_records();
  const std::int64_t torn_bytes = file->size_bytes() - complete_bytes;
  if (torn_bytes == 0) return;
  const std::string film =
      video_of_torn_line(file->read(complete_bytes, std::min(torn_bytes, kTornLineBytes)));
  log_warning("records",
              file->path().string() + ": the last line is torn (" + counted(torn_bytes, "byte") +
                  " of an interrupted write) and is cut off; " +
                  (film.empty() ? "its clip" : escape_file_name(unescape_file_name(film))) +
                  " is captioned again if it is among the clips of this run");
  file->truncate(complete_bytes);
}

// Records of another output or configuration may have been copied into the file.
void RecordFile::State::describe_foreign_records() const {
  const std::int64_t count = index.num_refused();
  if (count == 0) return;
  log_warning("records",
              file->path().string() + ": " + counted(count, "record was", "records were") +
                  " made with settings that " + manifest_path(file->path()).filename().string() +
                  " does not name; " + (count == 1 ? "it does" : "they do") +
                  " not count, and the clip" + (count == 1 ? " is" : "s are") +
                  " captioned again if this run names " + (count == 1 ? "it" : "them"));
}

bool RecordFile::State::must_remake(const RecordSlot& slot) const {
  return records::must_remake(slot, retry.statuses);
}

Record RecordFile::State::record_of(const RecordSlot& slot) const {
  return parse_json_line(file->read(slot.offset, slot.size_bytes - 1));
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

// Writes all lines except the superseded ones to a second file, which then replaces the first. Does
// nothing if no line is superseded.
void RecordFile::State::compact() {
  const fs::path beside = with_suffix(file->path(), ".compact");
  std::optional<OutputFile> compacted;
  try {
    if (replaced.has_value()) replaced->update(*file, index);
    if (index.num_superseded() == 0) return;
    keep_damaged_lines(*file, index);
    compacted.emplace(beside);
    compacted->truncate(0);
    copy_live_lines(*compacted);
  } catch (const Error& error) {
    std::error_code ignored;
    fs::remove(beside, ignored);  // frees its bytes, because the disk may be full
    throw Error(error.code(), error.what() + std::string("; every record of this run is in ") +
                                  file->path().string() +
                                  ", beside lines that no longer count, which the same command "
                                  "drops");
  }
  file->require_untouched();
  compacted->take_place_of(file->path());
  file = *std::move(compacted);
}

void RecordFile::State::copy_live_lines(OutputFile& target) const {
  const auto copy = [&](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const std::int64_t size_bytes = std::min(end - begin, kCopyBytes);
      target.append(file->read(begin, size_bytes), Durability::kLater);
      begin += size_bytes;
    }
  };
  std::int64_t position = 0;
  for (const RecordSlot& slot : index.slots()) {  // in file order
    if (slot.is_live) continue;
    copy(position, slot.offset);
    position = slot.offset + slot.size_bytes;
  }
  copy(position, file->size_bytes());
}

// Renames the records first, then their manifest: finish_swap() repairs an interruption in between.
void RecordFile::State::swap() {
  const fs::path beside = file->path();
  try {
    overwritten->require_untouched();
  } catch (const Error&) {
    throw Error(ErrorCode::kIo, output.string() +
                                    ": was changed, moved or deleted by another program during the "
                                    "run, and is not replaced; the records of this run are in " +
                                    beside.string());
  }
  refuse_foreign_manifest(output, manifest);
  file->take_place_of(output);
  fs::rename(manifest_path(beside), manifest_path(output));
  remove_replaced_records(output);
  sync_folder(output.parent_path());
  overwritten.reset();
}

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
  const std::lock_guard lock(state.mutex);
  RecordSlot* const here = state.index.at_place(keys.place);
  if (here != nullptr) here->is_wanted = true;
  if (here != nullptr && is_of_content(*here, keys) && !state.must_remake(*here)) {
    return {.kind = Earlier::Kind::kFinished, .status = here->status};
  }
  // Without a digest, another file of the same size and time may be a different video.
  if (clip.id.empty()) return {};
  Earlier earlier = state.find_elsewhere(keys, here, clip, video);
  if (earlier.kind != Earlier::Kind::kNone || !state.replaced.has_value()) return earlier;
  const std::optional<Record> old = state.replaced->find(keys, state.retry.statuses);
  if (!old.has_value()) return earlier;
  earlier.kind = Earlier::Kind::kElsewhere;
  earlier.record = under_new_name(*old, clip, video);
  earlier.record->moved_from = std::exchange(earlier.moved_from, {});
  return earlier;
}

// Prefers the record of a file that no longer exists to that of one that does, so that moving a
// folder with duplicate files leaves no obsolete records.
Earlier RecordFile::State::find_elsewhere(const ClipKeys& keys, const RecordSlot* here,
                                          const ClipIdentity& clip, const std::string& video) {
  constexpr int kMaxCandidates = 64;  // each candidate costs a read and a stat
  Earlier earlier;
  int num_left = kMaxCandidates;
  index.find_of_content(keys, [&](const RecordSlot& slot) {  // returns whether the search ends
    if (&slot == here) return false;
    const bool is_last = --num_left == 0;
    const bool must_be_made = must_remake(slot) || slot.status == Status::kFailed;
    if (must_be_made && !slot.is_live) return is_last;
    const Record record = record_of(slot);
    const bool is_own = record.file.has_value() && record.file->path == clip.file.path;
    const bool has_moved = slot.is_live && !is_own && is_gone(record);
    if (must_be_made) {  // a clip that failed elsewhere may succeed here
      if (has_moved) earlier.moved_from = record.file->path;
      return is_last;
    }
    if (earlier.record.has_value() && !has_moved) return is_last;
    earlier.kind = Earlier::Kind::kElsewhere;
    earlier.record = under_new_name(record, clip, video);
    // Another clip now occupies the old place.
    if (!slot.is_live) earlier.record->moved_from.clear();
    return has_moved || is_last;
  });
  return earlier;
}

AppendResult RecordFile::append(const Record& record) {
  State& state = *state_;
  Record own = record;
  own.settings = state.settings;
  const std::lock_guard lock(state.mutex);
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
  }
  state.write(own);
  // The caption that was kept at the old place has moved, so the failure at that place is written
  // now.
  const auto failure = state.kept_failures.find(place_key(own.moved_from, caption_key(own)));
  if (!own.moved_from.empty() && failure != state.kept_failures.end()) {
    state.write(failure->second);
    state.kept_failures.erase(failure);
  }
  return AppendResult::kWritten;
}

void RecordFile::State::write(const Record& record) {
  const bool is_usable = record.status != Status::kFailed;
  const std::string text = format_record(format, record);
  const std::int64_t offset = file->size_bytes();
  // A failure lost in a power cut is cheap to compute again, so it is not synced at once.
  file->append(text, is_usable ? Durability::kNow : Durability::kLater);
  if (format == Format::kJsonl) {
    // Unreadable files are not looked up again, so they are not indexed: a million of them cost no
    // memory.
    const bool is_new_place = index.at_place(keys_of(record).place) == nullptr;
    if (is_usable || !has_no_content(record) || !is_new_place) {
      RecordSlot& slot = index.add(record, offset, std::ssize(text));
      slot.is_from_this_run = slot.is_wanted = true;
    }
  } else {
    memory.add(record);
  }
  if (is_usable) ++num_usable;
  if (!is_usable && (has_no_content(record) || is_machine_failure(record))) ++num_unread;
}

void RecordFile::sync() {
  state_->file->sync();
  state_->file->require_untouched();
  restore_manifest(state_->file->path(), state_->manifest);
}

void RecordFile::note_unread() {
  const std::lock_guard lock(state_->mutex);
  ++state_->num_unread;
}

RecordFile::Ending RecordFile::finish() {
  State& state = *state_;
  sync();
  const std::lock_guard lock(state.mutex);
  if (state.overwritten.has_value()) {
    // An interrupted run may have left records of clips that are not part of this run.
    const std::int64_t before = state.index.num_live();
    state.index.drop_unwanted();
    if (const std::int64_t dropped = before - state.index.num_live(); dropped > 0) {
      log_warning("records", written_path().string() + ": " + counted(dropped, "record") +
                                 " of clips or prompts that this run does not name, from the "
                                 "--overwrite that was interrupted, " +
                                 (dropped == 1 ? "is" : "are") + " dropped");
    }
  }
  if (state.format == Format::kJsonl) state.compact();
  if (!state.overwritten.has_value()) return Ending::kInPlace;
  const bool has_captions = state.num_usable > 0 || state.index.num_usable() > 0;
  if (!has_captions || state.num_unread > 0 || state.index.has_unread()) {
    return Ending::kOldFileStays;
  }
  const bool is_jsonl = state.format == Format::kJsonl;
  if (is_jsonl && count_lost_captions(state.output, state.index) > 0) {
    return Ending::kOldHasCaptions;
  }
  state.swap();
  return Ending::kInPlace;
}

bool RecordFile::is_beside() const { return state_->overwritten.has_value(); }

const fs::path& RecordFile::written_path() const { return state_->file->path(); }

std::int64_t RecordFile::num_found() const { return state_->num_found; }

}  // namespace caption::records
