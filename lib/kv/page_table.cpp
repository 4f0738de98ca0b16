#include "kv/page_table.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "base/error.h"

namespace caption::kv {
namespace {

std::string describe(PageId page) { return "page " + std::to_string(static_cast<int>(page)); }

}  // namespace

PageTable::PageTable(PageTable&& other) noexcept
    : pool_(other.pool_),
      pages_(std::move(other.pages_)),
      num_tokens_(std::exchange(other.num_tokens_, 0)),
      num_released_(std::exchange(other.num_released_, 0)) {
  other.pages_.clear();
}

std::int32_t PageTable::slot(std::int64_t token) const {
  CAPTION_CHECK(token >= 0 && token < num_tokens_, "page table: token " + std::to_string(token) +
                                                       " of " + std::to_string(num_tokens_));
  CAPTION_CHECK(token / kPageTokens >= num_released_,
                "page table: the page of token " + std::to_string(token) + " was released");
  const auto page =
      static_cast<std::int64_t>(pages_[static_cast<std::size_t>(token / kPageTokens)]);
  return static_cast<std::int32_t>(page * kPageTokens + token % kPageTokens);
}

std::optional<PageId> PageTable::open_page() const {
  if (num_tokens_ % kPageTokens == 0) return std::nullopt;
  return pages_.back();
}

std::int64_t PageTable::pages_to_append(std::int64_t num_tokens) const {
  const std::optional<PageId> open = open_page();
  const bool copies_open = num_tokens > 0 && open.has_value() && !pool_->is_writable(*open);
  return pages_for_tokens(num_tokens_ + num_tokens) - static_cast<std::int64_t>(pages_.size()) +
         (copies_open ? 1 : 0);
}

Fit PageTable::append(std::int64_t num_tokens, std::vector<PageCopy>& copies) {
  CAPTION_CHECK(num_tokens >= 0, "page table: a negative number of tokens");
  const std::optional<PageId> open = num_tokens > 0 ? open_page() : std::nullopt;
  const std::size_t num_before = pages_.size();
  if (pool_->allocate(pages_to_append(num_tokens), pages_) == Fit::kNoRoom) return Fit::kNoRoom;
  if (open.has_value() && !pool_->is_writable(*open)) {
    // The last of the new pages replaces the open page.
    pages_[num_before - 1] = pages_.back();
    pages_.pop_back();
    pool_->release(*open);
    copies.push_back({*open, pages_[num_before - 1]});
  }
  num_tokens_ += num_tokens;
  return Fit::kFits;
}

void PageTable::release_before(std::int64_t token) {
  CAPTION_CHECK(token <= num_tokens_, "page table: cannot release up to token " +
                                          std::to_string(token) + " of " +
                                          std::to_string(num_tokens_));
  for (; (num_released_ + 1) * kPageTokens <= token; ++num_released_) {
    PageId& page = pages_[static_cast<std::size_t>(num_released_)];
    pool_->release(std::exchange(page, kNoPage));
  }
}

void PageTable::truncate(std::int64_t num_tokens) {
  CAPTION_CHECK(num_tokens >= 0 && num_tokens <= num_tokens_,
                "page table: cannot cut " + std::to_string(num_tokens_) + " tokens to " +
                    std::to_string(num_tokens));
  const std::int64_t num_pages = pages_for_tokens(num_tokens);
  CAPTION_CHECK(num_tokens == 0 || num_tokens >= num_released_ * kPageTokens,
                "page table: cannot cut to " + std::to_string(num_tokens) + " tokens; " +
                    std::to_string(num_released_) + " pages were released");
  while (std::ssize(pages_) > num_pages) {
    if (pages_.back() != kNoPage) pool_->release(pages_.back());
    pages_.pop_back();
  }
  num_tokens_ = num_tokens;
  num_released_ = std::min(num_released_, num_pages);
}

void PageTable::append_shared(PageId page, std::int64_t num_tokens) {
  CAPTION_CHECK(!open_page().has_value(), "page table: a shared page cannot follow a table of " +
                                              std::to_string(num_tokens_) +
                                              " tokens, which ends inside a page");
  pool_->add_reference(page);
  pages_.push_back(page);
  num_tokens_ += num_tokens;
}

void PageTable::fork(const PageTable& other) {
  CAPTION_CHECK(pages_.empty() && pool_ == other.pool_,
                "page table: only an empty table of the same pool can be a fork");
  for (const PageId page : other.pages_) {
    if (page != kNoPage) pool_->add_reference(page);
    pages_.push_back(page);
  }
  num_tokens_ = other.num_tokens_;
  num_released_ = other.num_released_;
}

void PageTable::reserve_pages(std::int64_t num_pages) {
  pages_.reserve(static_cast<std::size_t>(num_pages));
}

void check_pages(const PagePool& pool, std::span<const PageTable* const> tables) {
  std::vector<std::int32_t> named(static_cast<std::size_t>(pool.num_pages()), 0);
  std::vector<const PageTable*> last_namer(named.size(), nullptr);
  for (const PageTable* table : tables) {
    CAPTION_CHECK(
        static_cast<std::int64_t>(table->pages().size()) == pages_for_tokens(table->num_tokens()),
        "page table: " + std::to_string(table->pages().size()) + " pages for " +
            std::to_string(table->num_tokens()) + " tokens");
    for (std::int64_t i = 0; i < std::ssize(table->pages()); ++i) {
      const PageId page = table->pages()[static_cast<std::size_t>(i)];
      CAPTION_CHECK((page == kNoPage) == (i < table->num_released()),
                    "page table: entry " + std::to_string(i) + " is " + describe(page) + "; " +
                        std::to_string(table->num_released()) + " pages were released");
      if (page == kNoPage) continue;
      const auto idx = static_cast<std::size_t>(page);
      CAPTION_CHECK(last_namer[idx] != table,
                    "page " + std::to_string(idx) + " is twice in one table");
      last_namer[idx] = table;
      ++named[idx];
    }
  }
  std::int64_t num_used = 0;
  for (std::size_t i = 0; i < named.size(); ++i) {
    const std::int32_t counted = pool.num_references(PageId{static_cast<std::int32_t>(i)});
    CAPTION_CHECK(counted == named[i], "page " + std::to_string(i) + " has " +
                                           std::to_string(counted) + " references and is in " +
                                           std::to_string(named[i]) + " tables");
    if (counted > 0) ++num_used;
  }
  CAPTION_CHECK(num_used == pool.num_used(), "page pool: " + std::to_string(pool.num_free()) +
                                                 " free and " + std::to_string(num_used) +
                                                 " used of " + std::to_string(pool.num_pages()));
  pool.check();
}

}  // namespace caption::kv
