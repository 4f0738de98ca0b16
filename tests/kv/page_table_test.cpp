// A table maps tokens to slots and returns its pages; in a million random operations, free + used =
// total and reference count = number of tables that reference the page.
#include "kv/page_table.h"

#include <doctest/doctest.h>

#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "base/error.h"

namespace caption::kv {
namespace {

std::vector<const PageTable*> pointers(const std::vector<std::unique_ptr<PageTable>>& tables) {
  std::vector<const PageTable*> all;
  for (const auto& table : tables) all.push_back(table.get());
  return all;
}

TEST_SUITE("kv/page_table") {
  TEST_CASE("needs a page for every sixteenth token begun") {
    std::vector<PageCopy> copies;
    struct Case {
      std::int64_t num_tokens, num_pages;
    };
    constexpr Case kCases[] = {{0, 0}, {1, 1}, {15, 1}, {16, 1}, {17, 2}, {160, 10}};
    for (const Case& c : kCases) {
      CAPTURE(c.num_tokens);
      PagePool pool(10);
      PageTable table(pool);
      CHECK(table.pages_to_append(c.num_tokens) == c.num_pages);
      CHECK(table.append(c.num_tokens, copies) == Fit::kFits);
      CHECK(static_cast<std::int64_t>(table.pages().size()) == c.num_pages);
      CHECK(pool.num_used() == c.num_pages);
    }
  }

  TEST_CASE("a token's slot is its page's place plus its offset") {
    std::vector<PageCopy> copies;
    PagePool pool(4);
    PageTable other(pool);
    PageTable table(pool);
    REQUIRE(table.append(10, copies) == Fit::kFits);
    // The page of `other` keeps the pages of `table` from being adjacent.
    REQUIRE(other.append(1, copies) == Fit::kFits);
    REQUIRE(table.append(10, copies) == Fit::kFits);
    for (std::int64_t t = 0; t < 20; ++t) {
      const auto page = static_cast<std::int64_t>(table.pages()[static_cast<std::size_t>(t / 16)]);
      CHECK(table.slot(t) == page * 16 + t % 16);
    }
    CHECK_THROWS_AS(table.slot(20), Error);
    CHECK_THROWS_AS(table.slot(-1), Error);
  }

  TEST_CASE("an append that does not fit changes nothing") {
    std::vector<PageCopy> copies;
    PagePool pool(2);
    PageTable table(pool);
    REQUIRE(table.append(5, copies) == Fit::kFits);
    CHECK(table.append(28, copies) == Fit::kNoRoom);
    CHECK(table.num_tokens() == 5);
    CHECK(pool.num_free() == 1);
    CHECK(table.append(27, copies) == Fit::kFits);
  }

  TEST_CASE("truncating releases the pages of the cut tokens only") {
    std::vector<PageCopy> copies;
    PagePool pool(4);
    PageTable table(pool);
    REQUIRE(table.append(50, copies) == Fit::kFits);
    const PageId first = table.pages()[0];
    table.truncate(17);
    CHECK(pool.num_used() == 2);
    table.truncate(16);
    CHECK(pool.num_used() == 1);
    CHECK(table.pages()[0] == first);
    CHECK_THROWS_AS(table.truncate(17), Error);
    table.clear();
    CHECK(pool.num_used() == 0);
  }

  TEST_CASE("a fork shares every page; who writes to the open one first gets a copy of it") {
    std::vector<PageCopy> copies;
    PagePool pool(6);
    PageTable a(pool);
    REQUIRE(a.append(40, copies) == Fit::kFits);
    PageTable b(pool);
    b.fork(a);
    CHECK(b.num_tokens() == 40);
    CHECK(b.slot(39) == a.slot(39));
    CHECK(pool.num_used() == 3);
    CHECK(b.pages_to_append(1) == 1);
    CHECK(b.pages_to_append(9) == 2);  // a copy and a new page
    CHECK(b.pages_to_append(0) == 0);

    const PageId shared = a.pages()[2];
    REQUIRE(b.append(9, copies) == Fit::kFits);
    CHECK(copies == std::vector<PageCopy>{{shared, b.pages()[2]}});
    CHECK(a.pages()[2] == shared);
    CHECK(b.pages()[2] != shared);
    CHECK(b.slot(31) == a.slot(31));
    CHECK_FALSE(pool.is_shared(shared));
    REQUIRE(a.append(1, copies) == Fit::kFits);  // no other table references it now: no copy
    CHECK(copies.size() == 1);
    const PageTable* both[] = {&a, &b};
    check_pages(pool, both);
    CHECK_THROWS_WITH_AS(b.fork(a), doctest::Contains("empty table"), Error);
  }

  TEST_CASE("a copy that finds no room changes nothing") {
    std::vector<PageCopy> copies;
    PagePool pool(3);
    PageTable a(pool);
    REQUIRE(a.append(40, copies) == Fit::kFits);
    PageTable b(pool);
    b.fork(a);
    CHECK(b.append(1, copies) == Fit::kNoRoom);
    CHECK(b.num_tokens() == 40);
    CHECK(copies.empty());
    const PageTable* both[] = {&a, &b};
    check_pages(pool, both);
  }

  TEST_CASE("a prefix of shared pages is followed by pages of its own") {
    std::vector<PageCopy> copies;
    PagePool pool(6);
    PageTable a(pool);
    REQUIRE(a.append(40, copies) == Fit::kFits);
    PageTable b(pool);
    b.append_shared(a.pages()[0]);
    b.append_shared(a.pages()[1]);
    CHECK(b.num_tokens() == 32);
    REQUIRE(b.append(1, copies) == Fit::kFits);
    CHECK(b.pages()[2] != a.pages()[2]);
    CHECK(copies.empty());
    CHECK_THROWS_WITH_AS(b.append_shared(a.pages()[0]), doctest::Contains("inside a page"), Error);
    const PageTable* both[] = {&a, &b};
    check_pages(pool, both);
  }

  TEST_CASE("a published page shared for its first tokens is copied when the next is written") {
    PagePool pool(4);
    std::vector<PageId> published;
    REQUIRE(pool.allocate(1, published) == Fit::kFits);
    pool.publish(published[0], Hash128{1, 2});
    pool.release(published[0]);
    PageTable table(pool);
    table.append_shared(published[0], 5);
    CHECK(table.num_tokens() == 5);
    CHECK(table.open_page() == published[0]);
    CHECK(table.pages_to_append(11) == 1);
    std::vector<PageCopy> copies;
    REQUIRE(table.append(12, copies) == Fit::kFits);
    REQUIRE(copies.size() == 1);
    CHECK(copies[0] == PageCopy{published[0], table.pages()[0]});
    CHECK(table.pages().size() == 2);
    CHECK(pool.find(Hash128{1, 2}) == published[0]);  // not changed
    const PageTable* const tables[] = {&table};
    check_pages(pool, tables);
  }

  TEST_CASE("pages before a window are released; the table keeps its length") {
    std::vector<PageCopy> copies;
    PagePool pool(6);
    PageTable table(pool);
    REQUIRE(table.append(50, copies) == Fit::kFits);
    pool.publish(table.pages()[0], Hash128{1, 1});
    const PageId first = table.pages()[0];
    table.release_before(15);
    CHECK(table.num_released() == 0);
    table.release_before(40);
    CHECK(table.num_released() == 2);
    CHECK(table.pages().size() == 4);
    CHECK(table.pages()[0] == kNoPage);
    CHECK(table.pages()[1] == kNoPage);
    CHECK(pool.num_used() == 2);
    CHECK(pool.find(Hash128{1, 1}) == first);  // cached, because its content is known
    table.release_before(20);                  // nothing is taken back
    CHECK(table.num_released() == 2);
    CHECK_THROWS_WITH_AS(table.slot(31), doctest::Contains("token 31 was released"), Error);
    CHECK(table.slot(32) == static_cast<int>(table.pages()[2]) * kPageTokens);
    CHECK_THROWS_WITH_AS(table.release_before(51), doctest::Contains("token 51 of 50"), Error);

    PageTable fork(pool);
    fork.fork(table);
    CHECK(fork.num_released() == 2);
    const PageTable* const tables[] = {&table, &fork};
    check_pages(pool, tables);
    REQUIRE(fork.append(20, copies) == Fit::kFits);
    CHECK(fork.pages().size() == 5);
    CHECK_THROWS_WITH_AS(fork.truncate(31), doctest::Contains("2 pages were released"), Error);
    fork.truncate(32);
    CHECK(fork.pages().size() == 2);
    check_pages(pool, tables);
    const PageTable moved(std::move(fork));
    CHECK(moved.num_released() == 2);
    table.clear();
    CHECK(table.num_released() == 0);
    CHECK(pool.num_used() == 0);
  }

  TEST_CASE("moving a table moves its references") {
    std::vector<PageCopy> copies;
    PagePool pool(4);
    {
      PageTable a(pool);
      REQUIRE(a.append(33, copies) == Fit::kFits);
      const PageTable b(std::move(a));
      CHECK(b.num_tokens() == 33);
      CHECK(pool.num_used() == 3);
    }
    CHECK(pool.num_used() == 0);
  }

  TEST_CASE("the check finds a leaked page and a table left out") {
    std::vector<PageCopy> copies;
    PagePool pool(4);
    PageTable a(pool);
    REQUIRE(a.append(20, copies) == Fit::kFits);
    CHECK_THROWS_WITH_AS(check_pages(pool, {}), doctest::Contains("in 0 tables"), Error);
    pool.add_reference(a.pages()[1]);
    const PageTable* tables[] = {&a};
    CHECK_THROWS_WITH_AS(check_pages(pool, tables), doctest::Contains("2 references"), Error);
    pool.release(a.pages()[1]);
    check_pages(pool, tables);
  }

  TEST_CASE("a million random operations keep the invariants") {
    std::vector<PageCopy> copies;
    std::mt19937 rng(20);
    PagePool pool(24);
    std::vector<std::unique_ptr<PageTable>> tables;
    for (int i = 0; i < 8; ++i) tables.push_back(std::make_unique<PageTable>(pool));
    std::int64_t num_refused = 0;
    std::int64_t num_released = 0;
    for (int operation = 0; operation < 1'000'000; ++operation) {
      auto& table = *tables[rng() % tables.size()];
      const auto kind = rng() % 18;
      if (kind < 9) {
        const auto count = static_cast<std::int64_t>(rng() % 40);
        const std::int64_t num_pages = table.pages_to_append(count);
        const std::int64_t num_free = pool.num_free();
        copies.clear();
        if (table.append(count, copies) == Fit::kFits) {
          // The copied page becomes free if no other table references it.
          const bool is_freed = !copies.empty() && pool.num_references(copies[0].from) == 0;
          REQUIRE(num_free - pool.num_free() == num_pages - (is_freed ? 1 : 0));
          REQUIRE((copies.empty() || pool.is_writable(copies[0].to)));
        } else {
          REQUIRE(num_pages > num_free);
          ++num_refused;
        }
      } else if (kind < 13) {
        const std::int64_t end = static_cast<std::int64_t>(rng() % 400) % (table.num_tokens() + 1);
        table.truncate(end < table.num_released() * kPageTokens ? 0 : end);
      } else if (kind < 15) {
        table.clear();
        const auto& other = *tables[rng() % tables.size()];
        if (&other == &table) continue;
        if (kind == 13 || other.num_released() > 0) {
          table.fork(other);
        } else {
          for (std::int64_t i = 0; i < other.num_tokens() / kPageTokens; ++i) {
            const PageId page = other.pages()[static_cast<std::size_t>(i)];
            table.append_shared(page);
            pool.publish(page, Hash128{7, static_cast<std::uint64_t>(page)});
          }
        }
      } else if (kind < 17) {
        table.release_before(static_cast<std::int64_t>(rng() % 400) % (table.num_tokens() + 1));
        num_released += table.num_released();
      } else {
        const std::size_t i = rng() % tables.size();
        tables[i] = std::make_unique<PageTable>(std::move(*tables[i]));
      }
      check_pages(pool, pointers(tables));
    }
    CHECK(num_refused > 1000);
    CHECK(num_released > 10'000);
    tables.clear();
    CHECK(pool.num_free() == 24);
  }
}

}  // namespace
}  // namespace caption::kv
