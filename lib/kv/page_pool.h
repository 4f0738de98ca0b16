// kv/page_pool.h: a fixed number of KV pages, who counts on them, and what they hold. Bookkeeping
// only: the memory the ids stand for belongs to the engine.
//
// A page is
//   used    named by page tables; its reference count says by how many
//   cached  named by none, but its content is known and kept: a later sequence may use it again
//   free    the rest
// allocate() takes free pages first, last in first out, so memory that was touched is touched again
// before new memory is committed; then cached ones, least recently used first.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/hash.h"

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

  std::int64_t num_pages() const { return static_cast<std::int64_t>(pages_.size()); }
  // That allocate() can take: free and cached.
  std::int64_t num_free() const { return static_cast<std::int64_t>(free_.size()) + num_cached_; }
  std::int64_t num_cached() const { return num_cached_; }
  std::int64_t num_used() const { return num_pages() - num_free(); }
  std::int64_t peak_used() const { return peak_used_; }      // since construction
  std::int64_t num_evicted() const { return num_evicted_; }  // cached pages taken for other content

  // Appends `count` pages with one reference each to `pages`, or changes nothing.
  [[nodiscard]] Fit allocate(std::int64_t count, std::vector<PageId>& pages);

  // One more table names the page, used or cached. Throws Error(kInternal) for a free page.
  void add_reference(PageId page);
  // One table fewer; the last one makes the page cached when its content is known, else free.
  // Throws Error(kInternal) for a page that is not used.
  void release(PageId page);

  // From now on find(content) gives this used page, until its memory is taken for something else.
  // When another page holds the same content already, nothing changes.
  void publish(PageId page, const Hash128& content);
  // find(part) gives this published page as well: `part` is the content of its first tokens. Of
  // pages with the same part the first is found. Nothing changes for a page that was not published
  // (another holds its content).
  void publish_part(PageId page, const Hash128& part);
  std::optional<PageId> find(const Hash128& content) const;
  bool is_published(PageId page) const;

  std::int32_t num_references(PageId page) const;  // 0: free or cached
  bool is_shared(PageId page) const { return num_references(page) > 1; }
  // Named by one table, and its content is not promised to anybody; else it is to be copied before
  // it is written.
  bool is_writable(PageId page) const;

  // Throws Error(kInternal) unless every page is used, cached or free, once, and every known
  // content is that of its page. For tests.
  void check() const;

 private:
  struct Page {
    std::int32_t num_references = 0;
    // Neighbours in the list of cached pages, from least to most recently used; kNone at its ends.
    std::int32_t older = kNone;
    std::int32_t newer = kNone;
    std::optional<Hash128> content;
    std::optional<Hash128> part;
  };
  static constexpr std::int32_t kNone = -1;

  std::int32_t checked_index(PageId page) const;
  Page& at(std::int32_t idx) { return pages_[static_cast<std::size_t>(idx)]; }
  PageId take_free();
  void add_to_cached(std::int32_t idx);
  void remove_from_cached(std::int32_t idx);

  std::vector<Page> pages_;
  std::vector<PageId> free_;  // a stack
  std::unordered_map<Hash128, PageId> by_content_;
  std::int32_t oldest_cached_ = kNone;
  std::int32_t newest_cached_ = kNone;
  std::int64_t num_cached_ = 0;
  std::int64_t peak_used_ = 0;
  std::int64_t num_evicted_ = 0;
};

}  // namespace caption::kv
