#include "drafts/internal/token_run.h"

#include <numeric>
#include <utility>

namespace caption::drafts {
namespace {

// The order of the positions `a` and `b` by at most kMaxContext tokens before them, to the kBegin
// of their texts: < 0, 0 or > 0.
int compare_contexts(std::span<const std::int32_t> tokens, std::uint32_t a, std::uint32_t b) {
  const std::int32_t* from_a = tokens.data() + a;
  const std::int32_t* from_b = tokens.data() + b;
  for (std::int64_t i = 1; i <= kMaxContext; ++i) {
    if (from_a[-i] != from_b[-i]) return from_a[-i] < from_b[-i] ? -1 : 1;
    if (from_a[-i] == kBegin) return 0;
  }
  return 0;
}

// Merges two orders of `tokens`; of equal contexts, those of `older` are first.
std::vector<std::uint32_t> merge_orders(std::span<const std::int32_t> tokens,
                                        std::span<const std::uint32_t> older,
                                        std::span<const std::uint32_t> newer) {
  constexpr std::size_t kAhead = 16;
  std::vector<std::uint32_t> order;
  order.reserve(older.size() + newer.size());
  std::size_t i = 0;
  for (const std::uint32_t position : newer) {
    for (; i < older.size() && compare_contexts(tokens, older[i], position) <= 0; ++i) {
      if (i + kAhead < older.size()) __builtin_prefetch(tokens.data() + older[i + kAhead] - 1);
      order.push_back(older[i]);
    }
    order.push_back(position);
  }
  order.insert(order.end(), older.begin() + static_cast<std::ptrdiff_t>(i), older.end());
  return order;
}

// The number of the first indices below `size` that is_near holds for, as for none after them:
// found in steps that double (Bentley and Yao, Inf. Process. Lett. 1976).
template <class IsNear>
std::size_t count_near(std::size_t size, const IsNear& is_near) {
  std::size_t known = 0;  // is_near(i) holds for all i < known
  std::size_t end = size;
  for (std::size_t step = 1; known + step <= size; step *= 2) {
    if (!is_near(known + step - 1)) {
      end = known + step - 1;
      break;
    }
    known += step;
  }
  while (known < end) {
    const std::size_t middle = known + (end - known) / 2;
    if (is_near(middle)) {
      known = middle + 1;
    } else {
      end = middle;
    }
  }
  return known;
}

void add_index(TokenRun& run) {
  constexpr std::size_t kAhead = 16;
  run.index = ContextIndex(run.tokens, run.order);
  if (!run.index.is_built()) return;
  const std::int32_t* const tokens = run.tokens.data();
  run.thirds.reserve(run.order.size());
  for (std::size_t i = 0; i < run.order.size(); ++i) {
    if (i + kAhead < run.order.size()) __builtin_prefetch(tokens + run.order[i + kAhead] - 1);
    const std::int32_t* const next = tokens + run.order[i];
    const bool has_third = next[-1] != kBegin && next[-2] != kBegin;
    run.thirds.push_back(has_third ? next[-3] : kBegin);
  }
}

}  // namespace

TokenRun make_run(std::span<const std::int32_t> text) {
  TokenRun run;
  run.tokens.reserve(text.size() + 2);
  run.tokens.push_back(kBegin);
  run.tokens.insert(run.tokens.end(), text.begin(), text.end());
  run.tokens.push_back(kBegin);
  run.order.resize(text.size());
  std::iota(run.order.begin(), run.order.end(), 1U);
  std::sort(run.order.begin(), run.order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const int order = compare_contexts(run.tokens, a, b);
    return order != 0 ? order < 0 : a < b;
  });
  add_index(run);
  return run;
}

TokenRun merge_runs(const TokenRun& older, TokenRun newer) {
  const auto shift = static_cast<std::uint32_t>(older.tokens.size() - 1);
  for (std::uint32_t& position : newer.order) position += shift;
  TokenRun run;
  run.tokens.reserve(shift + newer.tokens.size());
  run.tokens.insert(run.tokens.end(), older.tokens.begin(), std::prev(older.tokens.end()));
  run.tokens.insert(run.tokens.end(), newer.tokens.begin(), newer.tokens.end());
  run.order = merge_orders(run.tokens, older.order, newer.order);
  add_index(run);
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
  for (const std::uint32_t position : run.order) {
    if (position >= cut) rest.order.push_back(position - cut);
  }
  add_index(rest);
  return rest;
}

ContextIndex::Range TokenRun::narrow(ContextIndex::Range range, std::int64_t depth,
                                     std::int32_t token) const {
  const auto token_of = [&](std::uint32_t position) { return tokens[position - 1 - depth]; };
  const auto end = order.begin() + range.end;
  const auto first =
      std::partition_point(order.begin() + range.begin, end,
                           [&](std::uint32_t position) { return token_of(position) < token; });
  if (first == end || token_of(*first) != token) return {0, 0};
  const auto last = std::partition_point(
      first, end, [&](std::uint32_t position) { return token_of(position) == token; });
  return {static_cast<std::uint32_t>(first - order.begin()),
          static_cast<std::uint32_t>(last - order.begin())};
}

void ContextPlace::begin(const TokenRun& run, const Context& context, ContextIndex::Range range) {
  run_ = &run;
  context_ = &context;
  range_ = range;
  place_ = range_.begin;
  num_left_ = range_.end - range_.begin;
  __builtin_prefetch(run_->order.data() + place_ + num_left_ / 2);
}

void ContextPlace::narrow() {
  narrow_to(kPrefetched);
  for (std::size_t i = 0; i < num_left_; ++i) {
    __builtin_prefetch(run_->tokens.data() + run_->order[place_ + i] - 1);
  }
}

void ContextPlace::finish() {
  narrow_to(0);
  longest_ = 0;
  if (range_.end > 0) longest_ = std::max(length_before(0), length_after(0));
}

void ContextPlace::narrow_to(std::size_t most) {
  while (num_left_ > most) {
    const std::size_t half = num_left_ / 2;
    if (is_before(place_ + half)) {
      place_ += half + 1;
      num_left_ -= half + 1;
    } else {
      num_left_ = half;
    }
  }
}

bool ContextPlace::is_before(std::size_t index) const {
  const std::int32_t* next = run_->tokens.data() + run_->order[index];
  for (std::int64_t i = 3; i < context_->size(); ++i) {
    const std::int32_t token = next[-1 - i];
    if (token != context_->at(i)) return token < context_->at(i);
  }
  return false;
}

ContextIndex::Range ContextPlace::find(std::int64_t length) const {
  ContextIndex::Range range{0, 0};
  if (length == 3) {
    range = range_;
  } else if (length <= longest_) {
    const auto num_before = count_near(place_ - range_.begin,
                                       [&](std::size_t i) { return length_before(i) >= length; });
    const auto num_after =
        count_near(range_.end - place_, [&](std::size_t i) { return length_after(i) >= length; });
    range = {static_cast<std::uint32_t>(place_ - num_before),
             static_cast<std::uint32_t>(place_ + num_after)};
  }
  return range;
}

}  // namespace caption::drafts
