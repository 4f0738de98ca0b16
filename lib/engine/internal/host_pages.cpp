#include "engine/internal/host_pages.h"

#include <algorithm>

#include "base/units.h"
#include "engine/internal/page_bytes.h"
#include "tensor/copy.h"

namespace caption::engine {
namespace {

std::int64_t num_slots(std::int64_t size_bytes, std::int64_t page_bytes) {
  const std::int64_t count = size_bytes / page_bytes;
  if (count >= 1) return count;
  throw Error(ErrorCode::kUsage, "engine: " + format_bytes(size_bytes) +
                                     " of host memory for evicted pages hold none of " +
                                     format_bytes(page_bytes) +
                                     "; raise --kv-host-bytes, or give 0 for none");
}

}  // namespace

HostPages::HostPages(std::int64_t size_bytes, Stream& stream, const PageMemory& pages,
                     std::int64_t most_ahead)
    : stream_(stream),
      pages_(pages),
      most_ahead_(0),
      slots_(num_slots(size_bytes, pages.page_bytes())),
      buffer_(Buffer::staging(stream.device(),
                              static_cast<std::size_t>(slots_.num_pages() * pages.page_bytes()))),
      copies_(stream.context(), stream.pool()) {
  // With more, copies for one step would displace each other.
  most_ahead_ = std::min(most_ahead, slots_.num_pages() / 2);
  oldest_.reserve(static_cast<std::size_t>(most_ahead_));
}

std::byte* HostPages::slot_begin(kv::PageId slot) const {
  return buffer_.begin() + static_cast<std::int64_t>(slot) * pages_.page_bytes();
}

template <class Work>
void HostPages::attempt(const Work& work) {
  if (failure_.has_value()) return;
  try {
    work();
  } catch (const Error& error) {
    failure_ = error;
  }
}

// Work of an earlier step, which failed before it was waited for, may still use the pages.
void HostPages::order_after_step() {
  if (!has_changed_pages_) copies_.wait(stream_.record());
  has_changed_pages_ = true;
}

void HostPages::evict(const kv::KnownPage& page) {
  attempt([&] {
    order_after_step();
    store(page);
  });
}

void HostPages::store(const kv::KnownPage& page) {
  std::optional<kv::PageId> slot = slots_.find(page.content);
  const bool is_here = slot.has_value();
  if (is_here) {
    slots_.add_reference(*slot);
  } else {
    taken_.clear();
    CAPTION_CHECK(slots_.allocate(1, taken_) == kv::Fit::kFits, "host pages: all are in use");
    slot = taken_.front();
    slots_.publish(*slot, page.content);
  }
  if (page.part.has_value()) slots_.publish_part(*slot, *page.part);
  slots_.release(*slot);  // it is now the one used last
  if (is_here) return;
  read_page(copies_, pages_, page.page, slot_begin(*slot));
  ++num_stored_;
}

bool HostPages::restore(const Hash128& content, kv::PageId page) {
  if (failure_.has_value()) return false;
  const std::optional<kv::PageId> slot = slots_.find(content);
  if (!slot.has_value()) return false;
  attempt([&] {
    order_after_step();
    slots_.add_reference(*slot);
    slots_.release(*slot);
    write_page(copies_, pages_, page, slot_begin(*slot));
  });
  return !failure_.has_value();
}

void HostPages::order_before_step() {
  attempt([&] {
    if (has_changed_pages_) stream_.wait(copies_.record());
    has_changed_pages_ = false;
  });
  if (failure_.has_value()) throw Error(*failure_);
}

void HostPages::copy_ahead(const kv::PagePool& pool) {
  const std::int64_t num_unused = pool.num_free() - pool.num_cached();
  const std::int64_t count = most_ahead_ - num_unused;
  if (count <= 0) return;
  oldest_.clear();
  pool.list_oldest(count, oldest_);
  attempt([&] {
    for (const kv::KnownPage& page : oldest_) {
      if (!slots_.find(page.content).has_value()) store(page);
    }
  });
}

}  // namespace caption::engine
