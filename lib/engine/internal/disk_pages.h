// engine/internal/disk_pages.h: the disk tier of the prefix cache: pages as blobs of a
// kv::DiskStore.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "engine/options.h"
#include "kv/disk_store.h"
#include "kv/page_tier.h"
#include "model/decoder.h"

namespace caption::engine {

class DiskPages final : public kv::PageTier {
 public:
  // `pages` are borrowed. Throws Error(kIo) when the folder cannot be used.
  DiskPages(const DiskTier& options, const model::KvPages& pages);

  // Writes nothing where DiskTier::may_store says so.

  void store(const Hash128& content, kv::PageId page) override;
  bool restore(const Hash128& content, kv::PageId page) override;

 private:
  const model::KvPages& pages_;
  std::vector<std::byte> buffer_;  // one page
  std::function<bool()> may_store_;
  kv::DiskStore store_;
};

}  // namespace caption::engine
