#include "weights/internal/watched_file.h"

namespace caption::weights {

const Sha256& WatchedFile::digest(const DigestCache& digests) {
  if (!digest_) digest_ = digests.digest_of(mapped_.file());
  return *digest_;
}

bool WatchedFile::has_changed() {
  if (is_changed_ || mapped_.has_lost_pages()) return true;
  const FileStamp& opened = mapped_.file().stamp();
  const FileStamp now = mapped_.file().stamp_now();
  const bool is_written =
      now.size_bytes != opened.size_bytes || now.modified_ns != opened.modified_ns;
  is_changed_ = is_written || (now.changed_ns != changed_ns_ && !digest_) ||
                (now.changed_ns != changed_ns_ && mapped_.file().sha256() != *digest_);
  changed_ns_ = now.changed_ns;
  return is_changed_;
}

std::string WatchedFile::describe_change() const {
  return mapped_.path().string() +
         (mapped_.has_lost_pages() ? " was cut short or can no longer be read" : " changed") +
         " while it is in use; run again with files that nobody writes";
}

}  // namespace caption::weights
