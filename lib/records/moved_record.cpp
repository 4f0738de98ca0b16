#include "records/internal/moved_record.h"

#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/open_file.h"
#include "records/file_name.h"

namespace caption::records {
namespace {

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

}  // namespace caption::records
