#include "drafts/internal/continuations.h"

#include <algorithm>

#include "drafts/internal/places.h"

namespace caption::drafts {
namespace {

// Slots per context, and positions of a run per context at least: 6 bytes per position.
constexpr double kSlotsPerContext = 1.5;
constexpr std::size_t kLeastPositions = 16;
// Shorter runs have no table: they are merged often and few of their contexts have many positions.
constexpr std::size_t kShort = 8192;

Continuation continuation_of(std::span<const std::int32_t> tokens,
                             std::span<const OrderEntry> order, const ContextList::Item& context,
                             std::vector<Guess>& guesses) {
  guesses.clear();
  Places places = places_in(tokens.data(), order.data(), context.positions);
  Continuation continuation{.mark = context.hash.mark(),
                            .total = static_cast<std::uint8_t>(places.num_added())};
  continue_texts(places, 0, Continuation::kMost, guesses);
  for (const Guess& guess : guesses) {
    continuation.tokens[continuation.num_guesses] = guess.token;
    continuation.counts[continuation.num_guesses++] = static_cast<std::uint8_t>(guess.count);
  }
  return continuation;
}

}  // namespace

Continuations::Continuations(const ContextList& contexts, std::span<const std::int32_t> tokens,
                             std::span<const OrderEntry> order) {
  if (order.size() < kShort) return;
  least_ = TokenArchive::kFrequent;
  const auto count = [&contexts](std::size_t least) {
    return static_cast<std::size_t>(std::count_if(
        contexts.items.begin(), contexts.items.end(),
        [least](const ContextList::Item& item) { return item.positions.size() >= least; }));
  };
  std::size_t number = count(least_);
  for (; number > order.size() / kLeastPositions; number = count(least_)) least_ *= 2;
  if (number == 0) return;
  slots_.resize(static_cast<std::size_t>(kSlotsPerContext * static_cast<double>(number)) + 1);
  std::vector<Guess> guesses;
  for (const ContextList::Item& item : contexts.items) {
    if (item.positions.size() < least_) continue;
    std::size_t slot = item.hash.slot_of(slots_.size());
    while (slots_[slot].total != 0) slot = after(slot);
    slots_[slot] = continuation_of(tokens, order, item, guesses);
  }
}

}  // namespace caption::drafts
