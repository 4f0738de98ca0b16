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
#include "base/mapped_file.h"
#include "records/internal/lines.h"
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
  void open_in_place(const Manifest& now);
  void finish_swap();
  void start_anew(const Manifest& now);
  void read_records();
  void swap();
  void compact();
  void copy_live_lines(OutputFile& target) const;
  bool must_remake(const RecordSlot& slot) const;
  Earlier find_elsewhere(const ClipKeys& keys, const RecordSlot* here, const ClipIdentity& clip,
                         const std::string& video);
  Record record_of(const RecordSlot& slot) const;
  void write(const Record& record);  // and takes it into the index
  // Whether the record of the slot is to stay although `record` was made.
  bool stays(const RecordSlot* slot, const Record& record) const;

  const fs::path output;
  const Format format;
  const Retry retry;
  const std::string settings;  // settings_key() of this run
  Manifest manifest;           // of the file
  // The lock on the old file while another is written beside it.
  std::optional<OutputFile> overwritten;
  std::optional<OutputFile> file;  // what records are appended to
  std::set<std::string> accepted;  // settings_key() of records that count
  std::int64_t num_found = 0;
  std::int64_t num_usable = 0;  // captions written by this run
  std::int64_t num_unread = 0;  // clips that this run could not read, or not for want of something

  std::mutex mutex;  // guards index and kept_failures
  // Failures of this run for whose sake an earlier caption stayed, by place.
  std::unordered_map<Hash128, Record> kept_failures;
  RecordIndex index;
  std::optional<ReplacedRecords> replaced;  // JSONL that is not overwritten
  RunMemory memory;                         // in place of the index for csv and txt
};

RecordFile::State::State(fs::path the_output, Format the_format, const Manifest& now,
                         Existing existing, const Retry& the_retry)
    : output(std::move(the_output)),
      format(the_format),
      retry(the_retry),
      settings(settings_key(now)),
      manifest(now),
      accepted({settings_key(now)}) {
  std::error_code error;
  if (existing == Existing::kOverwrite && fs::file_size(output, error) > 0 && !error) {
    open_overwriting(now);
  } else {
    open_in_place(now);
  }
}

void RecordFile::State::open_in_place(const Manifest& now) {
  file.emplace(output);
  finish_swap();
  fs::remove(with_suffix(output, ".compact"));
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
  manifest = std::move(there);
  read_records();
  replaced.emplace(output, accepted);
}

// The records of an overwriting run that was interrupted count when it had the same settings.
void RecordFile::State::open_overwriting(const Manifest& now) {
  refuse_foreign_file(output);
  overwritten.emplace(output);
  const fs::path path = with_suffix(output, ".new");
  refuse_special_file(path);
  file.emplace(path);
  if (file->size_bytes() > 0) {
    refuse_foreign_file(path);
    const std::optional<Manifest> there = read_manifest(manifest_path(path));
    const bool is_same = there.has_value() && describe_differences(*there, now).empty();
    if (is_same && format == Format::kJsonl) {
      read_records();
      if (index.num_usable() > 0) {
        log_info("records", path.string() + ": an --overwrite that was interrupted goes on");
        return;
      }
      index = {};
      num_found = 0;
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

// An --overwrite may have been killed between its two renames: the records have taken their place,
// their manifest has not. The records say by their settings that it is theirs.
void RecordFile::State::finish_swap() {
  const fs::path beside = with_suffix(output, ".new");
  const fs::path left = manifest_path(beside);
  if (file->size_bytes() == 0 || fs::exists(beside) || !fs::exists(left)) return;
  const std::optional<Manifest> theirs = read_manifest(left);
  const MappedFile bytes(output);
  const std::string_view text = as_text(bytes.bytes());
  try {
    const Record first = parse_json_line(text.substr(0, text.find('\n')));
    if (!theirs.has_value() || first.settings != settings_key(*theirs)) return;
  } catch (const Error&) {
    return;  // csv, txt or a foreign file
  }
  fs::rename(left, manifest_path(output));
  sync_folder(output.parent_path());
}

// Takes what an earlier run left into the index; cuts off a torn line.
void RecordFile::State::read_records() {
  const std::int64_t complete_bytes = records::read_records(file->path(), accepted, index);
  num_found = index.num_live();
  const std::int64_t torn_bytes = file->size_bytes() - complete_bytes;
  if (torn_bytes == 0) return;
  log_warning("records", file->path().string() + ": the last line is torn (" +
                             counted(torn_bytes, "byte") +
                             " of an interrupted write); it is cut off and its clip is "
                             "captioned again");
  file->truncate(complete_bytes);
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
  // A longer piece of a caption is better; otherwise the first one is as good.
  if (record.status == Status::kTruncated) {
    return record.output_tokens <= record_of(*slot).output_tokens;
  }
  return record.status != Status::kFailed;
}

// Writes all but the superseded lines, if there are any, to a file beside, which takes the place of
// the first.
void RecordFile::State::compact() {
  const fs::path beside = with_suffix(file->path(), ".compact");
  std::optional<OutputFile> compacted;
  try {
    if (replaced.has_value()) replaced->update(*file, index);
    if (index.num_superseded() == 0) return;
    compacted.emplace(beside);
    compacted->truncate(0);
    copy_live_lines(*compacted);
  } catch (const Error& error) {
    std::error_code ignored;
    fs::remove(beside, ignored);  // on a full disk its bytes are needed
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
  for (const RecordSlot& slot : index.slots()) {  // in the order of the file
    if (slot.is_live) continue;
    copy(position, slot.offset);
    position = slot.offset + slot.size_bytes;
  }
  copy(position, file->size_bytes());
}

// Records first, then their manifest: finish_swap() mends what a kill in between leaves.
void RecordFile::State::swap() {
  overwritten->require_untouched();
  const fs::path beside = file->path();
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
                         std::string_view prompt) {
  State& state = *state_;
  if (state.format != Format::kJsonl) return state.memory.find(clip, video, prompt);
  const ClipKeys keys = keys_of(clip, prompt);
  const std::lock_guard lock(state.mutex);
  RecordSlot* const here = state.index.at_place(keys.place);
  if (here != nullptr) here->is_wanted = true;
  if (here != nullptr && is_of_content(*here, keys) && !state.must_remake(*here)) {
    return {.kind = Earlier::Kind::kFinished, .status = here->status};
  }
  // Without a digest, a file elsewhere of the same size and time may be another film.
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

// The record of a file that is gone before that of a file that is there: a moved folder of equal
// files leaves no record behind.
Earlier RecordFile::State::find_elsewhere(const ClipKeys& keys, const RecordSlot* here,
                                          const ClipIdentity& clip, const std::string& video) {
  constexpr int kMaxCandidates = 64;  // each costs a read and a stat
  Earlier earlier;
  bool is_moved = false;
  int num_left = kMaxCandidates;
  index.for_each_of_content(keys, [&](const RecordSlot& slot) {
    if (&slot == here || is_moved || num_left == 0) return;
    --num_left;
    const bool must_be_made = must_remake(slot) || slot.status == Status::kFailed;
    if (must_be_made && !slot.is_live) return;
    const Record record = record_of(slot);
    const bool is_own = record.file.has_value() && record.file->path == clip.file.path;
    const bool has_moved = slot.is_live && !is_own && is_gone(record);
    if (must_be_made) {  // what failed elsewhere may succeed here
      if (has_moved) earlier.moved_from = record.file->path;
      return;
    }
    if (earlier.record.has_value() && !has_moved) return;
    earlier.kind = Earlier::Kind::kElsewhere;
    earlier.record = under_new_name(record, clip, video);
    // Another clip has the old place by now.
    if (!slot.is_live) earlier.record->moved_from.clear();
    is_moved = has_moved;
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
      slot->is_from_this_run = slot->is_wanted = true;  // it was tried: not again in this run
      if (own.status == Status::kFailed) {
        state.kept_failures.insert_or_assign(slot->place, own);
      }
      return AppendResult::kKept;
    }
    // A caption under the old name outlives a failure under the new one.
    const RecordSlot* const old = state.index.at_place(place_key(own.moved_from, own.prompt));
    if (old != nullptr && is_worse(own.status, old->status)) own.moved_from.clear();
  }
  state.write(own);
  // The caption that stayed in place of a failure goes along with its film; the failure remains.
  const auto failure = state.kept_failures.find(place_key(own.moved_from, own.prompt));
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
  // A failure that a power cut takes away is found again at little cost.
  file->append(text, is_usable ? Durability::kNow : Durability::kLater);
  if (format == Format::kJsonl) {
    // A file that cannot be read is asked for once: a million of them need no memory.
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
  // Records without a manifest could not be resumed.
  const fs::path path = manifest_path(state_->file->path());
  std::error_code error;
  if (!fs::exists(path, error)) write_manifest(path, state_->manifest);
}

void RecordFile::note_unread() {
  const std::lock_guard lock(state_->mutex);
  ++state_->num_unread;
}

RecordFile::Ending RecordFile::finish() {
  State& state = *state_;
  sync();
  const std::lock_guard lock(state.mutex);
  // An interrupted run may have left records of clips that this run does not name.
  if (state.overwritten.has_value()) state.index.drop_unwanted();
  if (state.format == Format::kJsonl) state.compact();
  if (!state.overwritten.has_value()) return Ending::kInPlace;
  const bool has_captions = state.num_usable > 0 || state.index.num_usable() > 0;
  if (!has_captions || state.num_unread > 0 || state.index.has_unread()) {
    return Ending::kOldFileStays;
  }
  state.swap();
  return Ending::kInPlace;
}

bool RecordFile::is_beside() const { return state_->overwritten.has_value(); }

const fs::path& RecordFile::written_path() const { return state_->file->path(); }

std::int64_t RecordFile::num_found() const { return state_->num_found; }

}  // namespace caption::records
