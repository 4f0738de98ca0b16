#include "drafts/internal/token_run.h"

#include <numeric>
#include <utility>
#include <vector>

#include "drafts/internal/order_merge.h"
#include "drafts/internal/run_builder.h"

namespace caption::drafts {
namespace {

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
  return RunBuilder(std::move(run)).build();
}

}  // namespace caption::drafts
