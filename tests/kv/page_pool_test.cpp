// Pages are conserved, counted, and given all or not at all.
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

  TEST_CASE("misuse is an internal error, not a corrupt pool") {
    PagePool pool(2);
    std::vector<PageId> pages;
    CHECK_THROWS_AS(pool.release(PageId{0}), Error);
    CHECK_THROWS_AS(pool.add_reference(PageId{1}), Error);
    CHECK_THROWS_AS(pool.release(PageId{2}), Error);
    CHECK_THROWS_AS(pool.release(PageId{-1}), Error);
    CHECK_THROWS_AS(static_cast<void>(pool.allocate(-1, pages)), Error);
    CHECK_THROWS_AS(PagePool(0), Error);
    CHECK_THROWS_AS(PagePool(std::int64_t{1} << 31), Error);
    CHECK(pool.num_free() == 2);
  }
}

}  // namespace
}  // namespace caption::kv
