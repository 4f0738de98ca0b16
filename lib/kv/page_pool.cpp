#include "kv/page_pool.h"

#include <algorithm>
#include <limits>
#include <string>

#include "base/error.h"

namespace caption::kv {
namespace {

constexpr std::int64_t kMaxPages = std::numeric_limits<std::int32_t>::max() / kPageTokens;

std::string describe(PageId page) { return "page " + std::to_string(static_cast<int>(page)); }

}  // namespace

PagePool::PagePool(std::int64_t num_pages) {
  CAPTION_CHECK(num_pages >= 1 && num_pages <= kMaxPages,
                "page pool: " + std::to_string(num_pages) + " pages; 1 to " +
                    std::to_string(kMaxPages) + " can be named");
  references_.assign(static_cast<std::size_t>(num_pages), 0);
  free_.reserve(references_.size());
  for (std::int64_t page = num_pages - 1; page >= 0; --page) {
    free_.push_back(PageId{static_cast<std::int32_t>(page)});
  }
}

Fit PagePool::allocate(std::int64_t count, std::vector<PageId>& pages) {
  CAPTION_CHECK(count >= 0, "page pool: a negative number of pages");
  if (count > num_free()) return Fit::kNoRoom;
  const std::size_t num_before = pages.size();
  pages.resize(num_before + static_cast<std::size_t>(count));
  for (std::size_t i = num_before; i < pages.size(); ++i) {
    pages[i] = free_.back();
    free_.pop_back();
    references_[static_cast<std::size_t>(pages[i])] = 1;
  }
  peak_used_ = std::max(peak_used_, num_used());
  return Fit::kFits;
}

void PagePool::add_reference(PageId page) {
  CAPTION_CHECK(num_references(page) > 0, describe(page) + " is free and cannot be shared");
  ++references_[static_cast<std::size_t>(page)];
}

void PagePool::release(PageId page) {
  CAPTION_CHECK(num_references(page) > 0, describe(page) + " is released twice");
  if (--references_[static_cast<std::size_t>(page)] == 0) free_.push_back(page);
}

std::int32_t PagePool::num_references(PageId page) const {
  const auto idx = static_cast<std::int64_t>(page);
  CAPTION_CHECK(idx >= 0 && idx < num_pages(), describe(page) + " is not of this pool");
  return references_[static_cast<std::size_t>(idx)];
}

}  // namespace caption::kv
