#include "drafts/internal/continuations.h"

#include <bit>
#include <vector>

#include "drafts/internal/places.h"

namespace caption::drafts {
namespace {

// Slots per context, and positions of a run per context at least: 6 bytes per position.
constexpr double kSlotsPerContext = 1.5;
constexpr std::size_t kLeastPositions = 16;
// Shorter runs have no table: they are merged often and few of their contexts have many positions.
constexpr std::size_t kShort = 8192;

Continuation continuation_of(std::span<const std::int32_t> tokens,
                             std::span<const OrderEntry> order, const ContextItem& context) {
  std::vector<Guess> guesses;
  guesses.reserve(static_cast<std::size_t>(Continuation::kMost));
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

Continuations::Continuations(const ContextList& contexts, std::size_t num_positions) {
  if (num_positions < kShort) return;
  static_assert(std::has_single_bit(TokenArchive::kFrequent));
  int power = std::countr_zero(TokenArchive::kFrequent);
  while (contexts.num_with(power) > num_positions / kLeastPositions) ++power;
  const std::size_t number = contexts.num_with(power);
  if (number == 0) return;
  least_ = std::size_t{1} << power;
  slots_.resize(static_cast<std::size_t>(kSlotsPerContext * static_cast<double>(number)) + 1);
}

void Continuations::insert(const ContextItem& context, std::span<const std::int32_t> tokens,
                           std::span<const OrderEntry> order) {
  std::size_t slot = context.hash.slot_of(slots_.size());
  while (slots_[slot].total != 0) slot = after(slot);
  slots_[slot] = continuation_of(tokens, order, context);
}

}  // namespace caption::drafts
