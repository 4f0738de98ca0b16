// engine/internal/disk_pages.h: the disk tier of the prefix cache: pages as blobs of a
// store::BlobStore.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "engine/options.h"
#include "kv/page_tier.h"
#include "model/decoder.h"
#include "store/blob_store.h"

namespace caption::engine {

class DiskPages final : public kv::PageTier {
 public:
  // `stream`, of the pages' device, and `pages` are borrowed. Throws Error(kIo) when the folder
  // cannot be used.
  DiskPages(const DiskTier& options, Stream& stream, const model::KvPages& pages);

  // Does nothing when the disk has the content or DiskTier::may_store returns false.

  void store(const Hash128& content, kv::PageId page) override;
  bool restore(const Hash128& content, kv::PageId page) override;

 private:
  Stream& stream_;
  const model::KvPages& pages_;
  std::vector<std::byte> buffer_;  // bytes of one page
  std::function<bool()> may_store_;
  store::BlobStore store_;
};

}  // namespace caption::engine
