// kv/page_pool.h: a fixed number of KV pages and who counts on them. Bookkeeping only: the memory
// the ids stand for belongs to the engine.
//
// A page is free, or used with a reference count: the number of page tables that name it. Free
// pages are handed out last in, first out, so memory that was touched is touched again before new
// memory is committed.
#pragma once

#include <cstdint>
#include <vector>

namespace caption::kv {

inline constexpr std::int64_t kPageTokens = 16;

enum class PageId : std::int32_t {};

constexpr std::int64_t pages_for_tokens(std::int64_t num_tokens) {
  return (num_tokens + kPageTokens - 1) / kPageTokens;
}

enum class Fit { kFits, kNoRoom };

// One thread at a time. Page tables borrow the pool: it must outlive them.
class PagePool {
 public:
  // Throws Error(kInternal) unless 1 <= num_pages and every slot (page * kPageTokens + offset) fits
  // an int32.
  explicit PagePool(std::int64_t num_pages);
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  std::int64_t num_pages() const { return static_cast<std::int64_t>(references_.size()); }
  std::int64_t num_free() const { return static_cast<std::int64_t>(free_.size()); }
  std::int64_t num_used() const { return num_pages() - num_free(); }
  std::int64_t peak_used() const { return peak_used_; }  // since construction

  // Appends `count` pages with one reference each to `pages`, or changes nothing.
  [[nodiscard]] Fit allocate(std::int64_t count, std::vector<PageId>& pages);

  // One more table names the page. Throws Error(kInternal) for a free page.
  void add_reference(PageId page);
  // One table fewer; the last one frees the page. Throws Error(kInternal) for a free page.
  void release(PageId page);

  std::int32_t num_references(PageId page) const;  // 0: free
  // Named by several tables: to be copied before it is written.
  bool is_shared(PageId page) const { return num_references(page) > 1; }

 private:
  std::vector<std::int32_t> references_;  // by page
  std::vector<PageId> free_;              // a stack
  std::int64_t peak_used_ = 0;
};

}  // namespace caption::kv
