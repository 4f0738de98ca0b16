// A table maps tokens to slots and gives back what it took; a million random operations keep
// free + used = total and reference count = tables that name the page.
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
    struct Case {
      std::int64_t num_tokens, num_pages;
    };
    constexpr Case kCases[] = {{0, 0}, {1, 1}, {15, 1}, {16, 1}, {17, 2}, {160, 10}};
    for (const Case& c : kCases) {
      CAPTURE(c.num_tokens);
      PagePool pool(10);
      PageTable table(pool);
      CHECK(table.pages_to_append(c.num_tokens) == c.num_pages);
      CHECK(table.append(c.num_tokens) == Fit::kFits);
      CHECK(static_cast<std::int64_t>(table.pages().size()) == c.num_pages);
      CHECK(pool.num_used() == c.num_pages);
    }
  }

  TEST_CASE("a token's slot is its page's place plus its offset") {
    PagePool pool(4);
    PageTable other(pool);
    PageTable table(pool);
    REQUIRE(table.append(10) == Fit::kFits);
    REQUIRE(other.append(1) == Fit::kFits);  // so the table's pages are not neighbours
    REQUIRE(table.append(10) == Fit::kFits);
    for (std::int64_t t = 0; t < 20; ++t) {
      const auto page = static_cast<std::int64_t>(table.pages()[static_cast<std::size_t>(t / 16)]);
      CHECK(table.slot(t) == page * 16 + t % 16);
    }
    CHECK_THROWS_AS(table.slot(20), Error);
    CHECK_THROWS_AS(table.slot(-1), Error);
  }

  TEST_CASE("an append that does not fit changes nothing") {
    PagePool pool(2);
    PageTable table(pool);
    REQUIRE(table.append(5) == Fit::kFits);
    CHECK(table.append(28) == Fit::kNoRoom);
    CHECK(table.num_tokens() == 5);
    CHECK(pool.num_free() == 1);
    CHECK(table.append(27) == Fit::kFits);
  }

  TEST_CASE("truncating releases the pages of the cut tokens only") {
    PagePool pool(4);
    PageTable table(pool);
    REQUIRE(table.append(50) == Fit::kFits);
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

  TEST_CASE("shares full pages, and never writes to a shared one") {
    PagePool pool(4);
    PageTable a(pool);
    REQUIRE(a.append(40) == Fit::kFits);
    PageTable b(pool);
    CHECK_THROWS_AS(b.share_prefix(a, 3), Error);  // the third page is not full
    b.share_prefix(a, 2);
    CHECK(b.slot(31) == a.slot(31));
    CHECK(pool.is_shared(a.pages()[0]));
    REQUIRE(b.append(1) == Fit::kFits);
    CHECK(b.pages()[2] != a.pages()[2]);
    const PageTable* both[] = {&a, &b};
    check_pages(pool, both);
    a.clear();
    CHECK_FALSE(pool.is_shared(b.pages()[0]));
    check_pages(pool, both);

    PageTable c(pool);
    c.share_prefix(b, 2);
    c.truncate(20);  // now the table ends inside a shared page
    CHECK_THROWS_WITH_AS(static_cast<void>(c.append(1)), doctest::Contains("shared"), Error);
  }

  TEST_CASE("moving a table moves its references") {
    PagePool pool(4);
    {
      PageTable a(pool);
      REQUIRE(a.append(33) == Fit::kFits);
      const PageTable b(std::move(a));
      CHECK(b.num_tokens() == 33);
      CHECK(pool.num_used() == 3);
    }
    CHECK(pool.num_used() == 0);
  }

  TEST_CASE("the check finds a leaked page and a table left out") {
    PagePool pool(4);
    PageTable a(pool);
    REQUIRE(a.append(20) == Fit::kFits);
    CHECK_THROWS_WITH_AS(check_pages(pool, {}), doctest::Contains("in 0 tables"), Error);
    pool.add_reference(a.pages()[1]);
    const PageTable* tables[] = {&a};
    CHECK_THROWS_WITH_AS(check_pages(pool, tables), doctest::Contains("2 references"), Error);
    pool.release(a.pages()[1]);
    check_pages(pool, tables);
  }

  TEST_CASE("a million random operations keep the invariants") {
    std::mt19937 rng(20);
    PagePool pool(24);
    std::vector<std::unique_ptr<PageTable>> tables;
    for (int i = 0; i < 8; ++i) tables.push_back(std::make_unique<PageTable>(pool));
    std::int64_t num_refused = 0;
    for (int operation = 0; operation < 1'000'000; ++operation) {
      auto& table = *tables[rng() % tables.size()];
      const std::uint32_t kind = rng() % 16;
      if (kind < 9) {
        const bool ends_in_shared =
            table.num_tokens() % kPageTokens != 0 && pool.is_shared(table.pages().back());
        const auto count = static_cast<std::int64_t>(rng() % 40);
        if (!ends_in_shared && table.append(count) == Fit::kNoRoom) ++num_refused;
      } else if (kind < 13) {
        table.truncate(static_cast<std::int64_t>(rng() % 400) % (table.num_tokens() + 1));
      } else if (kind < 15) {
        table.clear();
        const auto& other = *tables[rng() % tables.size()];
        if (&other != &table) table.share_prefix(other, other.num_tokens() / kPageTokens);
      } else {
        const std::size_t i = rng() % tables.size();
        tables[i] = std::make_unique<PageTable>(std::move(*tables[i]));
      }
      check_pages(pool, pointers(tables));
    }
    CHECK(num_refused > 1000);
    tables.clear();
    CHECK(pool.num_free() == 24);
  }
}

}  // namespace
}  // namespace caption::kv
