#include "records/output_preview.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/durable_file.h"
#include "base/file_descriptor.h"
#include "records/internal/foreign_files.h"
#include "records/internal/found_output.h"
#include "records/internal/record_index.h"
#include "records/internal/replaced_records.h"

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
  state_->is_being_written =
      is_locked(path) || (existing == Existing::kOverwrite && is_locked(path_beside(path)));
  const FoundOutput found = find_output(path, format, manifest, existing, retry);
  auto continued = read_continued(found, [this](const Record& record) { state_->add(record); });
  if (!continued.has_value()) return;
  state_->index = std::move(continued->index);
  if (found.use == FileUse::kBeside) return;
  state_->replaced.emplace(path, continued->accepted,
                           [this](const Record& record) { state_->add_size(record); });
}

OutputPreview::~OutputPreview() = default;

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
