// kv/page_table.h: the pages that hold one sequence's K and V, in the order of its tokens.
//
// Token t is in slot pages()[t / kPageTokens] * kPageTokens + t % kPageTokens. The table has
// exactly pages_for_tokens(num_tokens()) entries; the first of them are kNoPage once the tokens
// there are no longer needed. Several tables may reference a page; a table that writes to such a
// page gets a copy first (copy-on-write).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kv/page_pool.h"

namespace caption::kv {

// The engine must copy the content of page `from` to page `to` before either is written.
struct PageCopy {
  PageId from{};
  PageId to{};
  friend bool operator==(const PageCopy&, const PageCopy&) = default;
};

// Owns its references and releases them on destruction. Moves, does not copy. Used by one thread at
// a time.
class PageTable {
 public:
  explicit PageTable(PagePool& pool) : pool_(&pool) {}
  ~PageTable() { clear(); }
  PageTable(PageTable&& other) noexcept;
  PageTable& operator=(PageTable&&) = delete;

  std::int64_t num_tokens() const { return num_tokens_; }
  std::span<const PageId> pages() const { return pages_; }
  // Entries at the front whose pages release_before() has released.
  std::int64_t num_released() const { return num_released_; }
  // Throws Error(kInternal) unless 0 <= token < num_tokens() and the token's page is there.
  std::int32_t slot(std::int64_t token) const;
  // Returns the page that the next token is written to if it already holds tokens, otherwise
  // nullopt.
  std::optional<PageId> open_page() const;

  // Returns how many pages append(num_tokens) would take from the pool, including the copy of the
  // open page if one is needed.
  std::int64_t pages_to_append(std::int64_t num_tokens) const;
  // Makes room for `num_tokens` more tokens; changes nothing when there is no room. An open page
  // that is not writable is replaced, and the copy to make is appended to `copies`.
  [[nodiscard]] Fit append(std::int64_t num_tokens, std::vector<PageCopy>& copies);
  // Releases the pages of which every token is before `token`, with sliding windows: no later token
  // attends to them. The table keeps its length. Throws Error(kInternal) unless token <=
  // num_tokens().
  void release_before(std::int64_t token);
  // Removes the tokens from `num_tokens` on and releases the pages that held only these, last page
  // first. Throws Error(kInternal) unless num_tokens is 0, or at most num_tokens() and not before
  // the end of the released pages.
  void truncate(std::int64_t num_tokens);
  void clear() { truncate(0); }
  // Appends a used or cached page of the pool whose first `num_tokens` tokens, at least one, are
  // this sequence's next ones. Throws Error(kInternal) when this table ends inside a page.
  void append_shared(PageId page, std::int64_t num_tokens = kPageTokens);
  // Makes this empty table reference all pages of `other`, including the open one.
  void fork(const PageTable& other);
  // Reserves memory of the table for this many pages.
  void reserve_pages(std::int64_t num_pages);

 private:
  PagePool* pool_;
  std::vector<PageId> pages_;
  std::int64_t num_tokens_ = 0;
  std::int64_t num_released_ = 0;
};

// Throws Error(kInternal) naming the page unless `tables` are all the tables of the pool and
//   reference count of a page = number of tables that reference it, at most once each
//   free + cached + used = total
//   number of entries of a table = pages_for_tokens(its tokens), the released ones first.
void check_pages(const PagePool& pool, std::span<const PageTable* const> tables);

}  // namespace caption::kv
