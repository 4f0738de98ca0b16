#include "engine/internal/disk_pages.h"

#include "engine/internal/page_bytes.h"

namespace caption::engine {

DiskPages::DiskPages(const DiskTier& options, Stream& stream, const PageMemory& pages)
    : stream_(stream),
      pages_(pages),
      buffer_(static_cast<std::size_t>(pages.page_bytes())),
      may_store_(options.may_store),
      store_(options.folder, "pages", options.max_bytes) {}

void DiskPages::store(const Hash128& content, kv::PageId page) {
  if (store_.contains(content)) return;
  if (may_store_ && !may_store_()) return;
  read_page(stream_, pages_, page, buffer_.data());
  stream_.synchronize();
  store_.put(content, buffer_);
}

bool DiskPages::restore(const Hash128& content, kv::PageId page) {
  if (!store_.contains(content) || !store_.get_into(content, buffer_)) return false;
  write_page(stream_, pages_, page, buffer_.data());
  stream_.synchronize();
  return true;
}

}  // namespace caption::engine
