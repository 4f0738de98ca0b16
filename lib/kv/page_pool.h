// kv/page_pool.h: bookkeeping of a fixed number of KV pages: reference counts and known contents.
// The engine owns the memory that the page ids refer to.
//
// A page is
//   used    referenced by page tables; its reference count is their number
//   cached  referenced by none, but its content is known and kept, so that a later sequence may
//           reuse it
//   free    neither of these
// allocate() takes free pages first, last in first out, so that memory already touched is reused
// before new memory is committed; then cached pages, least recently used first.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/hash.h"

namespace caption::kv {

inline constexpr std::int64_t kPageTokens = 16;

enum class PageId : std::int32_t {};
inline constexpr PageId kNoPage{-1};  // the entry of a released page in a table

constexpr std::int64_t pages_for_tokens(std::int64_t num_tokens) {
  return (num_tokens + kPageTokens - 1) / kPageTokens;
}

enum class Fit { kFits, kNoRoom };

class PageTier;

// A page whose content is known: all of it and, if `part` is set, also that of its first tokens.
struct KnownPage {
  PageId page{};
  Hash128 content = {};
  std::optional<Hash128> part = std::nullopt;
};

// Used by one thread at a time. Page tables borrow the pool, so it must outlive them.
class PagePool {
 public:
  // Throws Error(kInternal) unless 1 <= num_pages and every slot (page * kPageTokens + offset) fits
  // an int32.
  explicit PagePool(std::int64_t num_pages);
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  std::int64_t num_pages() const { return static_cast<std::int64_t>(pages_.size()); }
  // Number of pages that allocate() can take: free and cached ones.
  std::int64_t num_free() const { return static_cast<std::int64_t>(free_.size()) + num_cached_; }
  std::int64_t num_cached() const { return num_cached_; }
  std::int64_t num_used() const { return num_pages() - num_free(); }
  std::int64_t peak_used() const { return peak_used_; }      // since construction
  std::int64_t num_evicted() const { return num_evicted_; }  // cached pages reused

  // From now on the tier is told of each cached page that allocate() takes. Borrowed; null, the
  // initial value: nobody is told.
  void set_tier(PageTier* tier) { tier_ = tier; }

  // Appends `count` pages with one reference each to `pages`; changes nothing when there is no
  // room.
  [[nodiscard]] Fit allocate(std::int64_t count, std::vector<PageId>& pages);

  // Adds the reference of one more table to a used or cached page. Throws Error(kInternal) for a
  // free page.
  void add_reference(PageId page);
  // Removes the reference of one table. A page without references becomes cached when its content
  // is known, otherwise free. Throws Error(kInternal) for a page that is not used.
  void release(PageId page);

  // From now on find(content) returns this used page, until its memory is reused for other content.
  // Has no effect when another page already holds the same content.
  void publish(PageId page, const Hash128& content);
  // From now on find(part) returns this page too; `part` identifies the content of its first
  // tokens. If several pages have the same part, find() returns the first one published. Has no
  // effect for a page that is not published (because another page holds its content).
  void publish_part(PageId page, const Hash128& part);
  std::optional<PageId> find(const Hash128& content) const;
  bool is_published(PageId page) const;

  // Appends the first `count` cached pages, or all if there are fewer, in the order in which
  // allocate() would take them.
  void list_oldest(std::int64_t count, std::vector<KnownPage>& pages) const;

  std::int32_t num_references(PageId page) const;  // 0: free or cached
  bool is_shared(PageId page) const { return num_references(page) > 1; }
  // True when one table references the page and its content is not published; otherwise the page
  // must be copied before it is written.
  bool is_writable(PageId page) const;

  // Throws Error(kInternal) unless every page is exactly one of used, cached and free, and find()
  // returns for every known content the page that holds it. For tests.
  void check() const;

 private:
  struct Page {
    std::int32_t num_references = 0;
    // Neighbours in the list of cached pages, which is ordered by last use; kNone at its ends.
    std::int32_t older = kNone;
    std::int32_t newer = kNone;
    std::optional<Hash128> content;
    std::optional<Hash128> part;
  };
  static constexpr std::int32_t kNone = -1;

  std::int32_t checked_index(PageId page) const;
  KnownPage known(std::int32_t idx) const;
  Page& at(std::int32_t idx) { return pages_[static_cast<std::size_t>(idx)]; }
  PageId take_free();
  void add_to_cached(std::int32_t idx);
  void remove_from_cached(std::int32_t idx);

  PageTier* tier_ = nullptr;
  std::vector<Page> pages_;
  std::vector<PageId> free_;  // a stack: the last page is allocated first
  std::unordered_map<Hash128, PageId> by_content_;
  std::int32_t oldest_cached_ = kNone;
  std::int32_t newest_cached_ = kNone;
  std::int64_t num_cached_ = 0;
  std::int64_t peak_used_ = 0;
  std::int64_t num_evicted_ = 0;
};

}  // namespace caption::kv
