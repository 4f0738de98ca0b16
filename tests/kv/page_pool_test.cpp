// Pages are conserved and counted, and an allocation gives all pages or none.
#include "kv/page_pool.h"

#include <doctest/doctest.h>

#include <set>
#include <vector>

#include "base/error.h"

namespace caption::kv {
namespace {

TEST_SUITE("kv/page_pool") {
  TEST_CASE("hands out every page once, then has no room") {
    PagePool pool(5);
    std::vector<PageId> pages;
    CHECK(pool.allocate(5, pages) == Fit::kFits);
    CHECK(std::set<PageId>(pages.begin(), pages.end()).size() == 5);
    CHECK(pool.num_free() == 0);
    CHECK(pool.num_used() == 5);
    CHECK(pool.allocate(1, pages) == Fit::kNoRoom);
    CHECK(pages.size() == 5);
  }

  TEST_CASE("allocates all or nothing") {
    PagePool pool(4);
    std::vector<PageId> pages;
    REQUIRE(pool.allocate(2, pages) == Fit::kFits);
    CHECK(pool.allocate(3, pages) == Fit::kNoRoom);
    CHECK(pool.num_free() == 2);
    CHECK(pages.size() == 2);
    CHECK(pool.allocate(0, pages) == Fit::kFits);
  }

  TEST_CASE("a shared page is free only after its last release") {
    PagePool pool(2);
    std::vector<PageId> pages;
    REQUIRE(pool.allocate(1, pages) == Fit::kFits);
    CHECK_FALSE(pool.is_shared(pages[0]));
    pool.add_reference(pages[0]);
    CHECK(pool.is_shared(pages[0]));
    pool.release(pages[0]);
    CHECK(pool.num_free() == 1);
    pool.release(pages[0]);
    CHECK(pool.num_free() == 2);
    CHECK(pool.num_references(pages[0]) == 0);
  }

  TEST_CASE("the page freed last is used first") {
    PagePool pool(8);
    std::vector<PageId> pages;
    REQUIRE(pool.allocate(3, pages) == Fit::kFits);
    for (auto page = pages.rbegin(); page != pages.rend(); ++page) pool.release(*page);
    std::vector<PageId> again;
    REQUIRE(pool.allocate(3, again) == Fit::kFits);
    CHECK(again == pages);
  }

  TEST_CASE("remembers the most pages ever in use") {
    PagePool pool(8);
    std::vector<PageId> pages;
    REQUIRE(pool.allocate(6, pages) == Fit::kFits);
    for (const PageId page : pages) pool.release(page);
    pages.clear();
    REQUIRE(pool.allocate(2, pages) == Fit::kFits);
    CHECK(pool.peak_used() == 6);
  }

  TEST_CASE("a published page is found, also when nobody names it, until its memory is taken") {
    PagePool pool(3);
    std::vector<PageId> pages;
    REQUIRE(pool.allocate(2, pages) == Fit::kFits);
    const Hash128 content{1, 2};
    CHECK_FALSE(pool.find(content).has_value());
    pool.publish(pages[0], content);
    pool.publish(pages[1], content);  // the same content again: the first page keeps it
    CHECK(pool.find(content) == pages[0]);
    CHECK_FALSE(pool.is_writable(pages[0]));
    CHECK(pool.is_writable(pages[1]));

    pool.release(pages[0]);
    CHECK(pool.num_cached() == 1);
    CHECK(pool.num_free() == 2);
    pool.add_reference(pages[0]);  // back in use
    CHECK(pool.num_cached() == 0);
    CHECK(pool.num_used() == 2);
    pool.release(pages[0]);
    pool.release(pages[1]);
    CHECK(pool.num_cached() == 1);  // a page without content becomes free

    std::vector<PageId> all;
    REQUIRE(pool.allocate(3, all) == Fit::kFits);
    CHECK(all[2] == pages[0]);  // cached pages are taken last
    CHECK_FALSE(pool.find(content).has_value());
    CHECK(pool.num_evicted() == 1);
    pool.check();
  }

  TEST_CASE("a published page is found by its first tokens, too, as long as it is there") {
    PagePool pool(2);
    std::vector<PageId> pages;
    REQUIRE(pool.allocate(2, pages) == Fit::kFits);
    const Hash128 part{3, 4};
    pool.publish_part(pages[0], part);  // not published: its tokens may still be written
    CHECK_FALSE(pool.find(part).has_value());
    for (const PageId page : pages)
      pool.publish(page, Hash128{1, static_cast<std::uint64_t>(page)});
    for (const PageId page : pages) pool.publish_part(page, part);
    CHECK(pool.find(part) == pages[0]);
    for (const PageId page : pages) pool.release(page);
    pool.check();
    std::vector<PageId> taken;
    REQUIRE(pool.allocate(1, taken) == Fit::kFits);
    CHECK(taken[0] == pages[0]);
    CHECK_FALSE(pool.find(part).has_value());
    pool.check();
  }

  TEST_CASE("the content that was not used for longest is forgotten first") {
    PagePool pool(3);
    std::vector<PageId> pages;
    REQUIRE(pool.allocate(3, pages) == Fit::kFits);
    const auto content = [](std::size_t i) { return Hash128{9, i}; };
    for (std::size_t i = 0; i < 3; ++i) pool.publish(pages[i], content(i));
    for (std::size_t i = 0; i < 3; ++i) pool.release(pages[i]);
    pool.add_reference(pages[0]);  // most recently used from now on
    pool.release(pages[0]);
    for (const std::size_t i : {std::size_t{1}, std::size_t{2}, std::size_t{0}}) {
      CHECK(pool.find(content(i)).has_value());
      std::vector<PageId> taken;
      REQUIRE(pool.allocate(1, taken) == Fit::kFits);
      CHECK(taken[0] == pages[i]);
      CHECK_FALSE(pool.find(content(i)).has_value());
    }
    pool.check();
  }

  TEST_CASE("misuse is an internal error, not a corrupt pool") {
    PagePool pool(2);
    std::vector<PageId> pages;
    CHECK_THROWS_AS(pool.release(PageId{0}), Error);
    CHECK_THROWS_AS(pool.add_reference(PageId{1}), Error);
    CHECK_THROWS_AS(pool.release(PageId{2}), Error);
    CHECK_THROWS_AS(pool.release(PageId{-1}), Error);
    CHECK_THROWS_AS(pool.publish(PageId{0}, Hash128{1, 1}), Error);  // a free page has no content
    CHECK_THROWS_AS(static_cast<void>(pool.allocate(-1, pages)), Error);
    CHECK_THROWS_AS(PagePool(0), Error);
    CHECK_THROWS_AS(PagePool(std::int64_t{1} << 31), Error);
    CHECK(pool.num_free() == 2);
  }
}

}  // namespace
}  // namespace caption::kv
