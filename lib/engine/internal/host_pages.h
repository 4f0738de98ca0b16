// engine/internal/host_pages.h: the host tier of the prefix cache: evicted pages in pinned memory,
// copied by a stream of their own.
//
// Copies are made while the host goes on, in the order in which they are asked for. What orders
// them with the steps are events on the device: the first copy of a plan begins after the work that
// the steps' stream has, and the step's work begins after the copies of pages that it overwrites or
// reads. Pages that are evicted next are copied while a step before that runs, so that the step
// that overwrites them seldom waits.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backend/buffer.h"
#include "backend/stream.h"
#include "base/error.h"
#include "base/hash.h"
#include "engine/internal/page_memory.h"
#include "kv/page_pool.h"
#include "tensor/tensor.h"

namespace caption::engine {

// Used by one thread at a time.
class HostPages {
 public:
  // `stream`, on which the steps run, and `pages` are borrowed. At most `most_ahead` pages are
  // copied before they are evicted. Throws Error(kUsage) with the numbers when `size_bytes` holds
  // no page; kOutOfMemory when the host lacks the memory.
  HostPages(std::int64_t size_bytes, Stream& stream, const PageMemory& pages,
            std::int64_t most_ahead);

  // Copies a page whose memory is written next, unless its content is here.
  void evict(const kv::KnownPage& page);
  // Copies the content to the page if it is here.
  bool restore(const Hash128& content, kv::PageId page);
  // Makes the stream's further work begin after the copies of pages that were evicted or restored
  // so far. To be called before the first of them is used. Throws the error of a copy that failed;
  // from then on nothing is found.
  void order_before_step();
  // Copies the pages that `pool` would evict first. To be called while a step runs.
  void copy_ahead(const kv::PagePool& pool);

  std::int64_t num_stored() const { return num_stored_; }  // copies to the host so far

 private:
  void store(const kv::KnownPage& page);
  void order_after_step();
  // Runs work that gives the stream copies, and keeps its error.
  template <class Work>
  void attempt(const Work& work);
  std::byte* slot_begin(kv::PageId slot) const;

  Stream& stream_;
  const PageMemory& pages_;
  std::int64_t most_ahead_;
  kv::PagePool slots_;  // slot i of buffer_: the least recently used content gives way
  Buffer buffer_;       // pinned
  Stream copies_;
  bool has_changed_pages_ = false;  // whether pages changed since order_before_step()
  std::int64_t num_stored_ = 0;
  std::optional<Error> failure_;
  std::vector<kv::KnownPage> oldest_;  // working memory of copy_ahead()
  std::vector<kv::PageId> taken_;      // working memory of store()
};

}  // namespace caption::engine
