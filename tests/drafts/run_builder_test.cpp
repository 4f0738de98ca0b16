#include "drafts/internal/run_builder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace caption::drafts {
namespace {

using Ids = std::vector<std::int32_t>;

// A run of texts with about num_tokens tokens.
TokenRun random_run(std::mt19937& rng, std::int32_t vocab, std::size_t num_tokens) {
  TokenRun run = make_run(Ids{1});
  while (run.length() < num_tokens) {
    Ids text(1 + rng() % 40);
    for (std::int32_t& id : text) {
      id = static_cast<std::int32_t>(rng() % static_cast<unsigned>(vocab));
    }
    run = RunBuilder(run, make_run(text)).build();
  }
  return run;
}

struct Built {
  TokenRun run;
  std::int64_t num_calls = 1;
};

Built build_in_pieces(RunBuilder builder, std::int64_t steps) {
  Built built;
  while (!builder.advance(steps)) ++built.num_calls;
  built.run = builder.take();
  return built;
}

void check_equal(const TokenRun& a, const TokenRun& b) {
  CHECK(a.tokens == b.tokens);
  CHECK(a.shared == b.shared);
  CHECK(std::equal(a.order.begin(), a.order.end(), b.order.begin(), b.order.end(),
                   [](const OrderEntry& x, const OrderEntry& y) {
                     return x.position == y.position &&
                            std::equal(x.next, x.next + OrderEntry::kNumNext, y.next);
                   }));
}

// Compares the order with one that compares all tokens, and both tables with it.
void check(const TokenRun& run) {
  const auto contexts_of = [&run](const OrderEntry& entry) {
    Ids backwards;
    for (std::size_t i = entry.position; std::ssize(backwards) < kMaxContext;) {
      backwards.push_back(run.tokens[--i]);
      if (run.tokens[i] == kBegin) break;
    }
    return backwards;
  };
  REQUIRE(run.order.size() == run.shared.size());
  Ids before;
  for (std::size_t i = 0; i < run.order.size(); ++i) {
    const Ids context = contexts_of(run.order[i]);
    const auto [a, b] = std::mismatch(before.begin(), before.end(), context.begin(), context.end());
    const bool is_equal = a == before.end() && b == context.end();
    if (i > 0) {
      REQUIRE(!(context < before));
      if (is_equal) REQUIRE(run.order[i - 1].position < run.order[i].position);
      REQUIRE(run.shared[i] == (is_equal ? kMaxContext : b - context.begin()));
    }
    before = context;
    const ContextIndex::Entry entry = run.index.find(ContextHash().before(context[0]));
    REQUIRE(entry.positions.begin <= i);
    REQUIRE(entry.positions.end > i);
  }
}

TEST_SUITE("drafts/run_builder") {
  TEST_CASE("a run made in pieces is the one made at once") {
    std::mt19937 rng(31);
    for (const std::int32_t vocab : {1, 3, 40, 1000}) {
      CAPTURE(vocab);
      const TokenRun older = random_run(rng, vocab, 1500);
      const TokenRun newer = random_run(rng, vocab, 600);
      const TokenRun merged = RunBuilder(older, newer).build();
      CHECK(merged.length() == older.length() + newer.length());
      CHECK(merged.order.size() == older.order.size() + newer.order.size());
      check(merged);
      const TokenRun half = RunBuilder::newest_half(merged).build();
      CHECK(half.length() <= merged.length() / 2);
      CHECK(half.length() >= merged.length() / 2 - 41);
      check(half);
      for (const std::int64_t steps : {1, 7, 1000}) {
        check_equal(build_in_pieces(RunBuilder(older, newer), steps).run, merged);
        check_equal(build_in_pieces(RunBuilder::newest_half(merged), steps).run, half);
      }
    }
  }

  TEST_CASE("the newest half of one text is no text") {
    const TokenRun run = make_run(Ids{1, 2, 3});
    CHECK(RunBuilder::newest_half(run).build().order.empty());
  }

  TEST_CASE("the steps of a run are few for each token, and a call takes no more than it may") {
    std::mt19937 rng(37);
    for (const std::int32_t vocab : {2, 40, 1000, 1 << 30}) {
      CAPTURE(vocab);
      const TokenRun older = random_run(rng, vocab, 9000);
      const TokenRun newer = random_run(rng, vocab, 1200);
      constexpr std::int64_t kSteps = 64;
      const std::int64_t num_calls = build_in_pieces(RunBuilder(older, newer), kSteps).num_calls;
      const auto num_tokens = static_cast<std::int64_t>(older.length() + newer.length());
      CHECK(num_calls * kSteps > num_tokens);
      CHECK(num_calls * kSteps < 8 * num_tokens);
    }
  }
}

}  // namespace
}  // namespace caption::drafts
