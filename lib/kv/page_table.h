// kv/page_table.h: the pages that hold one sequence's K and V, in the order of its tokens.
//
// Token t lies in slot pages()[t / kPageTokens] * kPageTokens + t % kPageTokens. The table holds
// exactly pages_for_tokens(num_tokens()) pages. Several tables may name a page; one that writes to
// it gets a copy first (copy-on-write).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kv/page_pool.h"

namespace caption::kv {

// The content of page `from` is to be copied to page `to` before either is written.
struct PageCopy {
  PageId from{};
  PageId to{};
  friend bool operator==(const PageCopy&, const PageCopy&) = default;
};

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
  // The page that the next token is written to, when it holds tokens already; else nullopt.
  std::optional<PageId> open_page() const;

  // Pages that append(num_tokens) would take from the pool, a copy of the open page included where
  // one is due.
  std::int64_t pages_to_append(std::int64_t num_tokens) const;
  // Room for `num_tokens` more tokens, or nothing changes. An open page that is not
  // writable is replaced: the copy to make is appended to `copies`.
  [[nodiscard]] Fit append(std::int64_t num_tokens, std::vector<PageCopy>& copies);
  // Forgets the tokens from `num_tokens` on and releases the pages that held only those, last one
  // first. Throws Error(kInternal) unless 0 <= num_tokens <= num_tokens().
  void truncate(std::int64_t num_tokens);
  void clear() { truncate(0); }
  // Names a full page of the pool too, used or cached, as the next, for its first `num_tokens`.
  // Throws Error(kInternal) when this table ends inside a page.
  void append_shared(PageId full_page, std::int64_t num_tokens = kPageTokens);
  // Makes this empty table name all pages of `other` too, the open one included.
  void fork(const PageTable& other);
  // Room for this many pages without allocating memory for the table itself.
  void reserve_pages(std::int64_t num_pages);

 private:
  PagePool* pool_;
  std::vector<PageId> pages_;
  std::int64_t num_tokens_ = 0;
};

// Throws Error(kInternal) naming the page unless `tables` are all the tables of the pool and
//   reference count of a page = tables that name it, at most once each
//   free + cached + used = total
//   pages of a table = pages_for_tokens(its tokens).
void check_pages(const PagePool& pool, std::span<const PageTable* const> tables);

}  // namespace caption::kv
