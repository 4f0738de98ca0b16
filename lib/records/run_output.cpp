#include "records/internal/run_output.h"

#include <algorithm>
#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "records/file_name.h"
#include "records/internal/damaged_lines.h"
#include "records/internal/foreign_files.h"
#include "records/internal/same_run.h"

namespace caption::records {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kCopyBytes = 1 << 20;
// The name of a torn line's film is looked for in so many of its first bytes.
constexpr std::int64_t kTornLineBytes = 64 << 10;

fs::path path_of_copy(const fs::path& file) { return file.string() + ".compact"; }

// Records of another output or configuration may have been copied into the file.
void describe_foreign_records(const fs::path& file, std::int64_t count) {
  if (count == 0) return;
  log_warning("records", file.string() + ": " + counted(count, "record was", "records were") +
                             " made with settings that " + manifest_path(file).filename().string() +
                             " does not name; " + (count == 1 ? "it does" : "they do") +
                             " not count, and the clip" + (count == 1 ? " is" : "s are") +
                             " captioned again if this run names " + (count == 1 ? "it" : "them"));
}

// A run that does not overwrite leaves FILE.new of one that did, and was killed, as it is.
void describe_unfinished_overwrite(const fs::path& output) {
  const fs::path beside = path_beside(output);
  std::error_code ignored;
  if (is_empty_or_missing(beside) || !fs::exists(manifest_path(beside), ignored)) return;
  log_warning("records", beside.string() +
                             ": an --overwrite was interrupted and left records here, which this "
                             "run does not read; --overwrite goes on with them");
}

}  // namespace

RunOutput::RunOutput(const fs::path& output, Format format, const Manifest& now, Existing existing,
                     const Retry& retry, RecordIndex& index)
    : output_(output), format_(format), manifest_(now), settings_(settings_key(now)) {
  // What is refused is refused before a lock creates a file. The files are looked at again under
  // the lock, since another run may have ended between.
  lock(find_output(output_, format_, now, existing, retry));
  if (!is_beside()) finish_swap();
  remove_unfinished_copies();
  FoundOutput found = find_output(output_, format_, now, existing, retry);
  if (found.path != file_->path()) {
    throw Error(ErrorCode::kOutputConflict,
                output_.string() + ": another run has written this file; repeat the command");
  }
  if (existing == Existing::kResume) describe_unfinished_overwrite(output_);
  if (!is_beside() && found.manifest.has_value() && note_retry(retry, *found.manifest, now)) {
    write_manifest(manifest_path(output_), *found.manifest);
  }
  std::optional<ContinuedRecords> continued = read_continued(found);
  if (!continued.has_value()) {
    start_anew(now);
    return;
  }
  index = std::move(continued->index);
  manifest_ = *std::move(found.manifest);
  settings_ = key_of_records(manifest_, now);
  mend_end(continued->complete_bytes);
  describe_foreign_records(file_->path(), index.num_refused());
  if (is_beside()) {
    log_info("records", file_->path().string() + ": an --overwrite that was interrupted goes on");
  } else {
    replaced_.emplace(output_, continued->accepted);
  }
}

void RunOutput::lock(const FoundOutput& found) {
  if (found.use == FileUse::kBeside) overwritten_.emplace(output_);
  file_.emplace(found.path);
}

// Completes an --overwrite that was killed between its two renames.
void RunOutput::finish_swap() {
  if (file_->size_bytes() == 0) return;
  const std::optional<fs::path> left = find_left_manifest(output_);
  if (!left.has_value()) return;
  fs::rename(*left, manifest_path(output_));
  sync_folder(output_.parent_path());
}

// Removes what drop_superseded_lines() leaves when it is killed, beside the output and FILE.new.
void RunOutput::remove_unfinished_copies() {
  fs::remove(path_of_copy(output_));
  fs::remove(path_of_copy(path_beside(output_)));
}

void RunOutput::start_anew(const Manifest& now) {
  if (file_->size_bytes() > 0) file_->truncate(0);
  if (!is_beside() && format_ == Format::kJsonl) {
    remove_replaced_records(output_);
    replaced_.emplace(output_, std::set<std::string>{settings_});
  }
  write_manifest(manifest_path(file_->path()), now);
  sync_folder(file_->path().parent_path());
  const std::string header = format_file_header(format_);
  if (!header.empty()) file_->append(header, Durability::kNow);
}

// Ends a last line that lacks its end alone, and cuts off a torn line.
void RunOutput::mend_end(std::int64_t complete_bytes) {
  if (complete_bytes > file_->size_bytes()) file_->append("\n", Durability::kNow);
  const std::int64_t torn_bytes = file_->size_bytes() - complete_bytes;
  if (torn_bytes == 0) return;
  const std::string film =
      video_of_torn_line(file_->read(complete_bytes, std::min(torn_bytes, kTornLineBytes)));
  log_warning("records",
              file_->path().string() + ": the last line is torn (" + counted(torn_bytes, "byte") +
                  " of an interrupted write) and is cut off; " +
                  (film.empty() ? "its clip" : escape_file_name(unescape_file_name(film))) +
                  " is captioned again if it is among the clips of this run");
  file_->truncate(complete_bytes);
}

void RunOutput::sync() {
  file_->sync();
  file_->require_untouched();
  restore_manifest(file_->path(), manifest_);
}

void RunOutput::drop_superseded_lines(const RecordIndex& index) {
  const fs::path beside = path_of_copy(file_->path());
  std::optional<OutputFile> copy;
  try {
    if (replaced_.has_value()) replaced_->update(*file_, index);
    if (index.num_superseded() == 0) return;
    keep_damaged_lines(*file_, index);
    copy.emplace(beside);
    copy->truncate(0);
    copy_live_lines(index, *copy);
  } catch (const Error& error) {
    std::error_code ignored;
    fs::remove(beside, ignored);  // frees its bytes, because the disk may be full
    throw Error(error.code(), error.what() + std::string("; every record of this run is in ") +
                                  file_->path().string() +
                                  ", beside lines that no longer count, which the same command "
                                  "drops");
  }
  file_->require_untouched();
  copy->take_place_of(file_->path());
  file_ = *std::move(copy);
}

void RunOutput::copy_live_lines(const RecordIndex& index, OutputFile& target) const {
  const auto copy = [&](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const std::int64_t size_bytes = std::min(end - begin, kCopyBytes);
      target.append(file_->read(begin, size_bytes), Durability::kLater);
      begin += size_bytes;
    }
  };
  std::int64_t position = 0;
  for (const RecordSlot& slot : index.slots()) {  // in file order
    if (slot.is_live) continue;
    copy(position, slot.offset);
    position = slot.offset + slot.size_bytes;
  }
  copy(position, file_->size_bytes());
}

// Renames the records first, then their manifest: finish_swap() repairs an interruption in between.
void RunOutput::take_place_of_output() {
  const fs::path beside = file_->path();
  try {
    overwritten_->require_untouched();
  } catch (const Error&) {
    throw Error(ErrorCode::kIo, output_.string() +
                                    ": was changed, moved or deleted by another program during the "
                                    "run, and is not replaced; the records of this run are in " +
                                    beside.string());
  }
  refuse_foreign_manifest(output_, manifest_);
  file_->take_place_of(output_);
  fs::rename(manifest_path(beside), manifest_path(output_));
  remove_replaced_records(output_);
  sync_folder(output_.parent_path());
  overwritten_.reset();
}

}  // namespace caption::records
