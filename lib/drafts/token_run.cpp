#include <numeric>
#include <utility>

#include "drafts/internal/token_run.h"

namespace caption::drafts {

TokenRun make_run(std::span<const std::int32_t> text) {
  TokenRun run;
  run.tokens.reserve(text.size() + 1);
  run.tokens.push_back(kBegin);
  run.tokens.insert(run.tokens.end(), text.begin(), text.end());
  run.order.resize(text.size());
  std::iota(run.order.begin(), run.order.end(), 1U);
  std::sort(run.order.begin(), run.order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const int order = compare_contexts(Preceding(run, a), Preceding(run, b), kMaxContext);
    return order != 0 ? order < 0 : a < b;
  });
  return run;
}

TokenRun merge_runs(const TokenRun& older, TokenRun newer) {
  const auto shift = static_cast<std::uint32_t>(older.tokens.size());
  for (std::uint32_t& position : newer.order) position += shift;
  TokenRun run;
  run.tokens.reserve(older.tokens.size() + newer.tokens.size());
  run.tokens.insert(run.tokens.end(), older.tokens.begin(), older.tokens.end());
  run.tokens.insert(run.tokens.end(), newer.tokens.begin(), newer.tokens.end());
  run.order.reserve(older.order.size() + newer.order.size());
  std::merge(older.order.begin(), older.order.end(), newer.order.begin(), newer.order.end(),
             std::back_inserter(run.order), [&](std::uint32_t a, std::uint32_t b) {
               return compare_contexts(Preceding(run, a), Preceding(run, b), kMaxContext) < 0;
             });
  return run;
}

TokenRun newest_half(const TokenRun& run) {
  const auto middle = run.tokens.begin() + std::max<std::int64_t>(1, std::ssize(run.tokens) / 2);
  const auto first_kept = std::find(middle, run.tokens.end(), kBegin);
  const auto cut = static_cast<std::uint32_t>(first_kept - run.tokens.begin());
  TokenRun rest;
  rest.tokens.assign(first_kept, run.tokens.end());
  rest.order.reserve(rest.tokens.size());
  for (const std::uint32_t position : run.order) {
    if (position >= cut) rest.order.push_back(position - cut);
  }
  return rest;
}

std::int64_t longest_match(const TokenRun& run, const Context& context) {
  const auto place =
      std::partition_point(run.order.begin(), run.order.end(), [&](std::uint32_t position) {
        return compare_contexts(Preceding(run, position), context, kMaxContext) < 0;
      });
  std::int64_t longest = 0;
  if (place != run.order.end()) {
    longest = common_length(Preceding(run, *place), context, kMaxContext);
  }
  if (place != run.order.begin()) {
    longest =
        std::max(longest, common_length(Preceding(run, *std::prev(place)), context, kMaxContext));
  }
  return longest;
}

std::span<const std::uint32_t> positions_after(const TokenRun& run, const Context& context,
                                               std::int64_t length) {
  const auto is_before = [&](std::uint32_t position) {
    return compare_contexts(Preceding(run, position), context, length) < 0;
  };
  const auto is_not_after = [&](std::uint32_t position) {
    return compare_contexts(Preceding(run, position), context, length) <= 0;
  };
  const auto first = std::partition_point(run.order.begin(), run.order.end(), is_before);
  const auto last = std::partition_point(first, run.order.end(), is_not_after);
  return {first, last};
}

}  // namespace caption::drafts
