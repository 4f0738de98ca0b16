#include "records/internal/run_memory.h"

#include <optional>
#include <utility>

#include "base/error.h"
#include "base/open_file.h"
#include "records/file_name.h"
#include "records/internal/record_index.h"

namespace caption::records {
namespace {

constexpr std::size_t kMaxBytes = 64u << 20;

// What lies at a path: the film that a record is about, another one, or a file that cannot be read.
enum class Found { kNothing, kSameContent, kOtherContent, kUnreadable };

// Looks for the film of a record that names a file. Reads what lies there only where neither size
// nor time decides; a record without a digest has the film as long as the size is the same.
Found look_for_film(const Record& record, const std::filesystem::path& path) {
  const ClipFile& film = *record.file;
  const std::optional<FileStamp> now = stamp_of(path);
  if (!now.has_value()) return Found::kNothing;
  if (now->size_bytes != film.size_bytes) return Found::kOtherContent;
  if (record.id.empty()) return Found::kSameContent;
  // The time is that of the record's own file.
  const bool is_own = path == unescape_file_name(film.path);
  if (is_own && now->modified_ns == film.modified_ns) return Found::kSameContent;
  try {
    const bool is_same = OpenFile(path).sha256().hex() == record.id;
    return is_same ? Found::kSameContent : Found::kOtherContent;
  } catch (const Error&) {
    return Found::kUnreadable;
  }
}

// What lies at the path that a copy's record names as its original.
Found look_for_original(const Record& record) {
  if (record.copy_of.empty()) return Found::kNothing;
  if (!record.file.has_value()) return Found::kSameContent;
  return look_for_film(record, unescape_file_name(record.copy_of));
}

}  // namespace

bool is_gone(const Record& record) {
  if (!record.file.has_value()) return false;
  const Found found = look_for_film(record, unescape_file_name(record.file->path));
  return found == Found::kNothing || found == Found::kOtherContent;
}

Record under_new_name(Record record, const ClipIdentity& clip, const std::string& video) {
  const std::string old_path = record.file.has_value() ? record.file->path : record.video;
  const Found found = look_for_original(record);
  // The clip whose caption it is: of a copy the one that it was copied from, if it is still there.
  const std::string source = found == Found::kSameContent ? record.copy_of : old_path;
  // It was copied from this clip, or from one in whose place another film lies now.
  if (record.copy_of == clip.file.path || found == Found::kOtherContent) record.copy_of.clear();
  // The clip was at this path before; another file had the name in between.
  if (old_path == clip.file.path) {
    record.moved_from.clear();
  } else if (is_gone(record)) {
    record.moved_from = old_path;
  } else {
    record.copy_of = source == clip.file.path ? "" : source;
    record.moved_from.clear();
    record.decode_ms = record.vision_ms = record.first_token_ms = 0;
    record.engine_ms = record.total_ms = 0;
  }
  record.video = video;
  record.file = clip.file;
  if (!clip.id.empty()) record.id = clip.id;
  return record;
}

Earlier RunMemory::find(const ClipIdentity& clip, const std::string& video,
                        std::string_view caption) const {
  // Without a digest, another file of the same size and time may be a different video.
  if (clip.id.empty()) return {};
  const std::lock_guard lock(mutex_);
  const auto found = lines_.find(keys_of(clip, caption).content);
  if (found == lines_.end()) return {};
  Record record = under_new_name(parse_json_line(found->second), clip, video);
  return {.kind = Earlier::Kind::kElsewhere, .record = std::move(record)};
}

void RunMemory::add(const Record& record) {
  if (record.status == Status::kFailed || record.id.empty()) return;
  const Hash128 key = keys_of(record).content;
  std::string line = to_json_line(record);
  const std::lock_guard lock(mutex_);
  if (size_bytes_ + line.size() > kMaxBytes) return;
  size_bytes_ += line.size();
  lines_.emplace(key, std::move(line));
}

}  // namespace caption::records
