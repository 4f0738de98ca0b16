#include "kv/page_pool.h"

#include <algorithm>
#include <limits>
#include <string>

#include "base/error.h"
#include "kv/page_tier.h"

namespace caption::kv {
namespace {

constexpr std::int64_t kMaxPages = std::numeric_limits<std::int32_t>::max() / kPageTokens;

std::string describe(PageId page) { return "page " + std::to_string(static_cast<int>(page)); }

}  // namespace

PagePool::PagePool(std::int64_t num_pages) {
  CAPTION_CHECK(num_pages >= 1 && num_pages <= kMaxPages,
                "page pool: " + std::to_string(num_pages) + " pages; 1 to " +
                    std::to_string(kMaxPages) + " can be named");
  pages_.resize(static_cast<std::size_t>(num_pages));
  free_.reserve(pages_.size());
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
    pages[i] = take_free();
    at(static_cast<std::int32_t>(pages[i])).num_references = 1;
  }
  peak_used_ = std::max(peak_used_, num_used());
  return Fit::kFits;
}

PageId PagePool::take_free() {
  if (!free_.empty()) {
    const PageId page = free_.back();
    free_.pop_back();
    return page;
  }
  const std::int32_t idx = oldest_cached_;
  if (tier_ != nullptr) tier_->evict(known(idx));
  remove_from_cached(idx);
  by_content_.erase(*at(idx).content);
  at(idx).content.reset();
  if (at(idx).part.has_value()) by_content_.erase(*at(idx).part);
  at(idx).part.reset();
  ++num_evicted_;
  return PageId{idx};
}

void PagePool::add_reference(PageId page) {
  const std::int32_t idx = checked_index(page);
  if (at(idx).num_references == 0) {
    CAPTION_CHECK(at(idx).content.has_value(), describe(page) + " is free and cannot be shared");
    remove_from_cached(idx);
  }
  ++at(idx).num_references;
  peak_used_ = std::max(peak_used_, num_used());
}

void PagePool::release(PageId page) {
  const std::int32_t idx = checked_index(page);
  CAPTION_CHECK(at(idx).num_references > 0, describe(page) + " is released twice");
  if (--at(idx).num_references > 0) return;
  if (at(idx).content.has_value()) {
    add_to_cached(idx);
  } else {
    free_.push_back(page);
  }
}

void PagePool::publish(PageId page, const Hash128& content) {
  const std::int32_t idx = checked_index(page);
  CAPTION_CHECK(at(idx).num_references > 0, describe(page) + " is not used and has no content");
  CAPTION_CHECK(!at(idx).content.has_value() || at(idx).content == content,
                describe(page) + " is published with another content");
  if (by_content_.emplace(content, page).second) at(idx).content = content;
}

void PagePool::publish_part(PageId page, const Hash128& part) {
  const std::int32_t idx = checked_index(page);
  if (!at(idx).content.has_value() || at(idx).part.has_value()) return;
  if (by_content_.emplace(part, page).second) at(idx).part = part;
}

bool PagePool::is_published(PageId page) const {
  return pages_[static_cast<std::size_t>(checked_index(page))].content.has_value();
}

std::optional<PageId> PagePool::find(const Hash128& content) const {
  const auto found = by_content_.find(content);
  if (found == by_content_.end()) return std::nullopt;
  return found->second;
}

KnownPage PagePool::known(std::int32_t idx) const {
  const Page& page = pages_[static_cast<std::size_t>(idx)];
  return {.page = PageId{idx}, .content = *page.content, .part = page.part};
}

void PagePool::list_oldest(std::int64_t count, std::vector<KnownPage>& pages) const {
  for (std::int32_t idx = oldest_cached_; idx != kNone && count > 0; --count) {
    pages.push_back(known(idx));
    idx = pages_[static_cast<std::size_t>(idx)].newer;
  }
}

std::int32_t PagePool::num_references(PageId page) const {
  return pages_[static_cast<std::size_t>(checked_index(page))].num_references;
}

bool PagePool::is_writable(PageId page) const {
  const Page& known = pages_[static_cast<std::size_t>(checked_index(page))];
  return known.num_references == 1 && !known.content.has_value();
}

std::int32_t PagePool::checked_index(PageId page) const {
  const auto idx = static_cast<std::int32_t>(page);
  CAPTION_CHECK(idx >= 0 && idx < num_pages(), describe(page) + " is not of this pool");
  return idx;
}

void PagePool::add_to_cached(std::int32_t idx) {
  at(idx).older = newest_cached_;
  at(idx).newer = kNone;
  (newest_cached_ == kNone ? oldest_cached_ : at(newest_cached_).newer) = idx;
  newest_cached_ = idx;
  ++num_cached_;
}

void PagePool::remove_from_cached(std::int32_t idx) {
  const Page& page = at(idx);
  (page.older == kNone ? oldest_cached_ : at(page.older).newer) = page.newer;
  (page.newer == kNone ? newest_cached_ : at(page.newer).older) = page.older;
  --num_cached_;
}

void PagePool::check() const {
  std::vector<int> times_seen(pages_.size(), 0);
  for (const PageId page : free_) {
    ++times_seen[static_cast<std::size_t>(checked_index(page))];
    const Page& known = pages_[static_cast<std::size_t>(page)];
    CAPTION_CHECK(!known.content.has_value() && !known.part.has_value(),
                  describe(page) + " is free and has a content");
  }
  std::int64_t num_listed = 0;
  std::int32_t older = kNone;
  for (std::int32_t idx = oldest_cached_; idx != kNone; ++num_listed) {
    const Page& page = pages_[static_cast<std::size_t>(idx)];
    CAPTION_CHECK(page.older == older && page.content.has_value() && page.num_references == 0,
                  describe(PageId{idx}) + " is not a cached page in its place");
    ++times_seen[static_cast<std::size_t>(idx)];
    older = idx;
    idx = page.newer;
  }
  CAPTION_CHECK(num_listed == num_cached_ && older == newest_cached_,
                "page pool: the list of cached pages is broken");
  std::int64_t num_contents = 0;
  for (std::size_t i = 0; i < pages_.size(); ++i) {
    const PageId id{static_cast<std::int32_t>(i)};
    if (pages_[i].num_references > 0) ++times_seen[i];
    CAPTION_CHECK(times_seen[i] == 1, describe(id) + " is in " + std::to_string(times_seen[i]) +
                                          " of used, cached and free");
    if (!pages_[i].content.has_value()) continue;
    ++num_contents;
    CAPTION_CHECK(find(*pages_[i].content) == id, describe(id) + " is not found by its content");
    if (!pages_[i].part.has_value()) continue;
    ++num_contents;
    CAPTION_CHECK(find(*pages_[i].part) == id, describe(id) + " is not found by its part");
  }
  CAPTION_CHECK(num_contents == static_cast<std::int64_t>(by_content_.size()),
                "page pool: a content has no page");
}

}  // namespace caption::kv
