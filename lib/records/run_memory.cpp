#include "records/internal/run_memory.h"

#include <utility>

#include "records/internal/moved_record.h"
#include "records/internal/record_index.h"

namespace caption::records {
namespace {

constexpr std::size_t kMaxBytes = 64u << 20;

}  // namespace

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
