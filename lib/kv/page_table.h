// kv/page_table.h: the pages that hold one sequence's K and V, in the order of its tokens.
//
// Token t lies in slot pages()[t / kPageTokens] * kPageTokens + t % kPageTokens. The table holds
// exactly pages_for_tokens(num_tokens()) pages.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/page_pool.h"

namespace caption::kv {

// Owns its references: releases them when destroyed. Moves, does not copy. One thread at a time.
class PageTable {
 public:
  explicit PageTable(PagePool& pool) : pool_(&pool) {}
  ~PageTable() { clear(); }
  PageTable(PageTable&& other) noexcept;
  PageTable& operator=(PageTable&&) = delete;

  std::int64_t num_tokens() const { return num_tokens_; }
  std::span<const PageId> pages() const { return pages_; }
  // Throws Error(kInternal) unless 0 <= token < num_tokens().
  std::int32_t slot(std::int64_t token) const;

  // Pages that append(num_tokens) would take from the pool.
  std::int64_t pages_to_append(std::int64_t num_tokens) const;
  // Room for `num_tokens` more tokens, or nothing changes. Throws Error(kInternal) when they would
  // be written to a page that another table shares.
  [[nodiscard]] Fit append(std::int64_t num_tokens);
  // Forgets the tokens from `num_tokens` on and releases the pages that held only those, last one
  // first. Throws Error(kInternal) unless 0 <= num_tokens <= num_tokens().
  void truncate(std::int64_t num_tokens);
  void clear() { truncate(0); }
  // Makes this empty table name the first `num_pages` pages of `other` too. They must be full: a
  // full page is never written again, so sharing needs no copy.
  void share_prefix(const PageTable& other, std::int64_t num_pages);
  // Room for this many pages without allocating memory for the table itself.
  void reserve_pages(std::int64_t num_pages);

 private:
  PagePool* pool_;
  std::vector<PageId> pages_;
  std::int64_t num_tokens_ = 0;
};

// Throws Error(kInternal) naming the page unless `tables` are all the tables of the pool and
//   reference count of a page = tables that name it, at most once each
//   free + used = total
//   pages of a table = pages_for_tokens(its tokens).
void check_pages(const PagePool& pool, std::span<const PageTable* const> tables);

}  // namespace caption::kv
