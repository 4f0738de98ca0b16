#include "drafts/internal/token_run.h"

#include <numeric>
#include <utility>

namespace caption::drafts {
namespace {

// The tokens before two positions, read backwards.
struct Comparison {
  std::uint8_t shared = 0;  // tokens that are equal, kBegin included; kMaxContext: all are
  bool is_less = false;     // the first position's are smaller
};

// The contexts of `a` and `b`, of which `known` tokens are known to be equal, none of them kBegin.
Comparison compare_contexts(std::span<const std::int32_t> tokens, std::uint32_t a, std::uint32_t b,
                            std::uint8_t known) {
  const std::int32_t* from_a = tokens.data() + a - 1;
  const std::int32_t* from_b = tokens.data() + b - 1;
  for (std::ptrdiff_t i = known; i < kMaxContext; ++i) {
    if (from_a[-i] != from_b[-i]) {
      return {.shared = static_cast<std::uint8_t>(i), .is_less = from_a[-i] < from_b[-i]};
    }
    if (from_a[-i] == kBegin) break;
  }
  return {.shared = kMaxContext};
}

// Merges two orders of positions of the same tokens; of equal contexts, those of `older` are first.
// The numbers of tokens that neighbours share decide most comparisons without reading tokens
// (Ng and Kakehi, Merging string sequences by longest common prefixes, IPSJ Digital Courier 2008).
class OrderMerge {
 public:
  OrderMerge(const TokenRun& older, const TokenRun& newer, std::uint32_t shift, TokenRun& merged)
      : older_(older), newer_(newer), shift_(shift), merged_(merged) {}

  void merge() {
    const std::size_t size = older_.order.size() + newer_.order.size();
    merged_.order.resize(size);
    merged_.shared.resize(size);
    while (old_ < older_.order.size() && new_ < newer_.order.size()) {
      if (old_shared_ == new_shared_) {
        take_after_comparison();
      } else if (old_shared_ > new_shared_) {
        take_old();
      } else {
        take_new();
      }
    }
    while (old_ < older_.order.size()) take_old();
    while (new_ < newer_.order.size()) take_new();
  }

 private:
  void take_after_comparison() {
    if (old_shared_ == kMaxContext) return take_old();
    const Comparison comparison =
        compare_contexts(merged_.tokens, older_.order[old_].position,
                         newer_.order[new_].position + shift_, old_shared_);
    if (comparison.is_less || comparison.shared == kMaxContext) {
      take_old();
      new_shared_ = comparison.shared;
    } else {
      take_new();
      old_shared_ = comparison.shared;
    }
  }
  void take_old() {
    merged_.order[old_ + new_] = older_.order[old_];
    merged_.shared[old_ + new_] = old_shared_;
    if (++old_ < older_.shared.size()) old_shared_ = older_.shared[old_];
  }
  void take_new() {
    OrderEntry& entry = merged_.order[old_ + new_];
    entry = newer_.order[new_];
    entry.position += shift_;
    merged_.shared[old_ + new_] = new_shared_;
    if (++new_ < newer_.shared.size()) new_shared_ = newer_.shared[new_];
  }

  const TokenRun& older_;
  const TokenRun& newer_;
  const std::uint32_t shift_;  // is added to the positions of the newer run
  TokenRun& merged_;
  std::size_t old_ = 0;  // the next index of each order
  std::size_t new_ = 0;
  std::uint8_t old_shared_ = 0;  // tokens that it shares with the latest position taken
  std::uint8_t new_shared_ = 0;
};

OrderEntry entry_of(std::span<const std::int32_t> tokens, std::uint32_t position) {
  OrderEntry entry{.position = position, .next = {}};
  bool has_ended = false;
  for (std::ptrdiff_t i = 0; i < OrderEntry::kNumNext; ++i) {
    const std::int32_t token = has_ended ? kBegin : tokens[position + static_cast<std::size_t>(i)];
    has_ended = token == kBegin;
    entry.next[i] = token;
  }
  return entry;
}

}  // namespace

TokenRun make_run(std::span<const std::int32_t> text) {
  TokenRun run;
  run.tokens.reserve(text.size() + 2);
  run.tokens.push_back(kBegin);
  run.tokens.insert(run.tokens.end(), text.begin(), text.end());
  run.tokens.push_back(kBegin);
  std::vector<std::uint32_t> positions(text.size());
  std::iota(positions.begin(), positions.end(), 1U);
  std::sort(positions.begin(), positions.end(), [&](std::uint32_t a, std::uint32_t b) {
    const Comparison comparison = compare_contexts(run.tokens, a, b, 0);
    return comparison.shared == kMaxContext ? a < b : comparison.is_less;
  });
  run.order.reserve(positions.size());
  run.shared.reserve(positions.size());
  for (std::size_t i = 0; i < positions.size(); ++i) {
    run.order.push_back(entry_of(run.tokens, positions[i]));
    run.shared.push_back(
        i == 0 ? std::uint8_t{0}
               : compare_contexts(run.tokens, positions[i - 1], positions[i], 0).shared);
  }
  run.add_index();
  return run;
}

TokenRun merge_runs(const TokenRun& older, const TokenRun& newer) {
  const auto shift = static_cast<std::uint32_t>(older.tokens.size() - 1);
  TokenRun run;
  run.tokens.reserve(shift + newer.tokens.size());
  run.tokens.insert(run.tokens.end(), older.tokens.begin(), std::prev(older.tokens.end()));
  run.tokens.insert(run.tokens.end(), newer.tokens.begin(), newer.tokens.end());
  OrderMerge(older, newer, shift, run).merge();
  return run;
}

TokenRun newest_half(const TokenRun& run) {
  const auto middle = run.tokens.begin() + std::max<std::int64_t>(1, std::ssize(run.tokens) / 2);
  const auto first_kept = std::find(middle, run.tokens.end(), kBegin);
  TokenRun rest;
  if (first_kept == std::prev(run.tokens.end())) return rest;
  const auto cut = static_cast<std::uint32_t>(first_kept - run.tokens.begin());
  rest.tokens.assign(first_kept, run.tokens.end());
  rest.order.reserve(rest.tokens.size());
  rest.shared.reserve(rest.tokens.size());
  std::uint8_t shared = 0;  // with the latest position kept
  for (std::size_t i = 0; i < run.order.size(); ++i) {
    shared = std::min(shared, run.shared[i]);
    if (run.order[i].position < cut) continue;
    rest.order.push_back(run.order[i]);
    rest.order.back().position -= cut;
    rest.shared.push_back(shared);
    shared = kMaxContext;
  }
  rest.add_index();
  return rest;
}

}  // namespace caption::drafts
