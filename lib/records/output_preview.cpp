#include "records/output_preview.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <optional>
#include <set>
#include <unordered_set>

#include "base/durable_file.h"
#include "base/file_descriptor.h"
#include "records/internal/read_records.h"
#include "records/internal/record_index.h"
#include "records/internal/replaced_records.h"
#include "records/internal/same_run.h"

namespace caption::records {
namespace {

namespace fs = std::filesystem;

// Whether another process has the lock of OutputFile on the file.
bool is_locked(const fs::path& path) {
  const FileDescriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (descriptor.get() < 0) return false;
  return ::flock(descriptor.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

}  // namespace

struct OutputPreview::State {
  void read(const RecordsFile& file, const std::set<std::string>& accepted);
  void add(const Record& record);
  void add_size(const Record& record);

  // Whether the slot describes the clip's content under the rule of `known_by`.
  bool is_same(const RecordSlot& slot, const ClipKeys& keys) const;

  Retry retry;
  KnownBy known_by = KnownBy::kDigest;
  bool is_being_written = false;
  RecordIndex index;
  std::optional<ReplacedRecords> replaced;
  std::unordered_set<std::int64_t> sizes_bytes;  // sizes of the files that records describe
  MeanTimes sums;
};

OutputPreview::OutputPreview(const fs::path& given, Format format, const Manifest& manifest,
                             Existing existing, const Retry& retry, KnownBy known_by)
    : state_(std::make_unique<State>()) {
  state_->retry = retry;
  state_->known_by = known_by;
  refuse_special_file(given);
  const fs::path path = real_path(given);
  const fs::path beside = path.string() + ".new";
  state_->is_being_written =
      is_locked(path) || (existing == Existing::kOverwrite && is_locked(beside));
  const bool has_records = !is_empty_or_missing(path);
  const bool has_beside = existing == Existing::kOverwrite && !is_empty_or_missing(beside);
  if (!has_records && !has_beside) {
    refuse_foreign_manifest(path, manifest);
    return;
  }
  if (existing == Existing::kResume) {
    const auto accepted = accepted_keys(require_same_run(path, format, manifest, retry));
    state_->read({.path = path}, accepted);
    state_->replaced.emplace(path, accepted,
                             [this](const Record& record) { state_->add_size(record); });
    return;
  }
  if (has_records) refuse_foreign_file(path);
  refuse_foreign_manifest(path, manifest);
  // The run would resume an interrupted --overwrite, so its records count.
  refuse_special_file(beside);
  refuse_foreign_manifest(beside, manifest);
  if (format != Format::kJsonl || is_empty_or_missing(beside)) return;
  refuse_foreign_file(beside);
  refuse_to_lose_captions(beside, manifest);
  const std::optional<Manifest> there = read_manifest(manifest_path(beside));
  if (!there.has_value() || !describe_differences(*there, manifest).empty()) return;
  state_->read({.path = beside, .use = FileUse::kBeside}, accepted_keys(*there));
}

OutputPreview::~OutputPreview() = default;

void OutputPreview::State::read(const RecordsFile& file, const std::set<std::string>& accepted) {
  read_records(file, accepted, index, [this](const Record& record) { add(record); });
}

void OutputPreview::State::add_size(const Record& record) {
  if (record.file.has_value() && record.file->size_bytes.has_value()) {
    sizes_bytes.insert(*record.file->size_bytes);
  }
}

void OutputPreview::State::add(const Record& record) {
  add_size(record);
  if (record.status == Status::kFailed || record.engine_ms <= 0) return;
  ++sums.num_captions;
  sums.decode_ms += record.decode_ms;
  sums.vision_ms += record.vision_ms;
  sums.engine_ms += record.engine_ms;
}

bool OutputPreview::State::is_same(const RecordSlot& slot, const ClipKeys& keys) const {
  const bool lacks_digest = slot.content == Hash128{} && slot.times != Hash128{};
  if (known_by == KnownBy::kDigest && lacks_digest) return false;
  return is_of_content(slot, keys);
}

Planned OutputPreview::plan(const ClipIdentity& clip, std::string_view caption) {
  const ClipKeys keys = keys_of(clip, caption);
  const RecordSlot* const here = state_->index.at_place(keys.place);
  const auto& statuses = state_->retry.statuses;
  const bool is_here = here != nullptr && state_->is_same(*here, keys);
  if (is_here && !must_remake(*here, statuses)) {
    return here->status == Status::kFailed ? Planned::kKeepFailed : Planned::kKeep;
  }
  bool is_elsewhere = false;
  if (!clip.id.empty()) {
    const auto counts = [&](const RecordSlot& slot) {
      return &slot != here && slot.status != Status::kFailed && !must_remake(slot, statuses);
    };
    is_elsewhere = state_->index.find_of_content(keys, counts) != nullptr ||
                   (state_->replaced.has_value() && state_->replaced->find(keys, statuses));
  }
  if (is_elsewhere) return Planned::kTakeOver;
  return is_here ? Planned::kMakeAgain : Planned::kMake;
}

bool OutputPreview::may_know(std::int64_t size_bytes) const {
  return state_->sizes_bytes.contains(size_bytes);
}

bool OutputPreview::is_being_written() const { return state_->is_being_written; }

std::int64_t OutputPreview::num_found() const { return state_->index.num_live(); }

MeanTimes OutputPreview::mean_times() const {
  MeanTimes means = state_->sums;
  if (means.num_captions == 0) return means;
  const auto count = static_cast<double>(means.num_captions);
  means.decode_ms /= count;
  means.vision_ms /= count;
  means.engine_ms /= count;
  return means;
}

}  // namespace caption::records
