#include "drafts/internal/matches.h"

#include <algorithm>
#include <bit>

namespace caption::drafts {
namespace {

constexpr int kFrequent = TokenArchive::kFrequent;

}  // namespace

Matches::Matches(std::span<const TokenRun> runs, std::span<const std::int32_t> text)
    : runs_(runs),
      context_(text),
      last_(context_.at(0)),
      pair_(context_.at(0), context_.size() > 1 ? context_.at(1) : kBegin) {
  for (const TokenRun& run : runs) {
    if (!run.index.is_built()) continue;
    run.index.prefetch(pair_);
    run.index.prefetch(last_);
  }
  if (context_.size() > 1) find_pairs();
  if (context_.size() > 2 && two_.count > 0) find_triples();
}

void Matches::find_last() {
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const TokenRun& run = runs_[i];
    one_.set(i, run.index.is_built() ? run.index.find(last_)
                                     : run.narrow(run.everywhere(), 0, context_.at(0)));
  }
}

void Matches::find_pairs() {
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const TokenRun& run = runs_[i];
    if (run.index.is_built()) {
      const ContextIndex::Range range = run.index.find(pair_);
      two_.set(i, range);
      __builtin_prefetch(run.thirds.data() + range.begin);
      __builtin_prefetch(run.order.data() + range.begin);
    } else {
      const ContextIndex::Range range = run.narrow(run.everywhere(), 0, context_.at(0));
      two_.set(i, run.narrow(range, 1, context_.at(1)));
    }
  }
}

void Matches::find_triples() {
  const std::int32_t third = context_.at(2);
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const TokenRun& run = runs_[i];
    const ContextIndex::Range range = two_.ranges[i];
    if (!run.index.is_built()) {
      three_.set(i, run.narrow(range, 2, third));
      continue;
    }
    const std::int32_t* const thirds = run.thirds.data();
    const auto [first, last] = std::equal_range(thirds + range.begin, thirds + range.end, third);
    three_.set(
        i, {static_cast<std::uint32_t>(first - thirds), static_cast<std::uint32_t>(last - thirds)});
  }
}

void Matches::guess(std::int64_t most, std::vector<Guess>& guesses, std::vector<Guess>* frequent) {
  if (three_.count > kMostLookedAt) {
    guess_from_many(most, guesses, frequent);
  } else {
    guess_from_few(most, guesses, frequent);
  }
}

// The places of the frequent guesses are added before the others are used, so that the memory of
// both is waited for at the same time.
void Matches::guess_from_few(std::int64_t most, std::vector<Guess>& guesses,
                             std::vector<Guess>* frequent) {
  const bool needs_last = two_.count == 0 || (frequent != nullptr && two_.count < kFrequent);
  const Level& known = three_.count > 0 ? three_ : two_.count > 0 ? two_ : one_;
  if (&known == &one_) find_last();
  if (known.count == 0) return;
  const Places places = look_at(known);
  if (needs_last && &known != &one_) find_last();
  const Level& shorter = two_.count >= kFrequent ? two_ : one_;
  const bool backs_off =
      frequent != nullptr && known.count < kFrequent && shorter.count >= kFrequent;
  Places shorter_places;
  if (backs_off) shorter_places = look_at(shorter);

  std::uint64_t longest = places.all();
  std::int64_t length = known.length;
  std::uint64_t enough = 0;  // the places of the longest context that at least kFrequent have
  std::int64_t enough_length = 0;
  for (; known.length == 3 && length < context_.size(); ++length) {
    const std::uint64_t longer = places.with_token(longest, -1 - length, context_.at(length));
    if (std::popcount(longest) >= kFrequent && std::popcount(longer) < kFrequent) {
      enough = longest;
      enough_length = length;
    }
    if (longer == 0) break;
    longest = longer;
  }
  continue_texts(places, longest, length, most, guesses);
  if (frequent == nullptr || std::popcount(longest) >= kFrequent) return;
  if (enough != 0) {
    continue_texts(places, enough, enough_length, most, *frequent);
  } else if (backs_off) {
    continue_texts(shorter_places, shorter_places.all(), shorter.length, most, *frequent);
  }
}

void Matches::guess_from_many(std::int64_t most, std::vector<Guess>& guesses,
                              std::vector<Guess>* frequent) {
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    places_[i].begin(runs_[i], context_, three_.ranges[i]);
  }
  for (std::size_t i = 0; i < runs_.size(); ++i) places_[i].narrow();
  std::int64_t longest = 0;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    places_[i].finish();
    longest = std::max(longest, places_[i].longest());
  }
  const auto append = [&](const Level& level, std::vector<Guess>& to) {
    const Places places = look_at(level);
    continue_texts(places, places.all(), level.length, most, to);
  };
  const Level known = find_in_places(longest);
  append(known, guesses);
  if (frequent == nullptr || known.count >= kFrequent) return;
  append(find_in_places(longest_frequent(longest)), *frequent);
}

Matches::Level Matches::find_in_places(std::int64_t length) const {
  Level level(length);
  for (std::size_t i = 0; i < runs_.size(); ++i) level.set(i, places_[i].find(length));
  return level;
}

// Index j of kMostLookedAt is j * count / kMostLookedAt, whose remainders are summed.
Places Matches::look_at(const Level& level) const {
  const bool takes_all = level.count <= kMostLookedAt;
  const std::size_t step = takes_all ? 1 : level.count / kMostLookedAt;
  const std::size_t remainder = takes_all ? 0 : level.count % kMostLookedAt;
  std::size_t index = 0;  // from the begin of the run's range on
  std::size_t sum = 0;
  Places places;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const std::int32_t* const tokens = runs_[i].tokens.data();
    const std::uint32_t* const order = runs_[i].order.data() + level.ranges[i].begin;
    const std::size_t size = level.ranges[i].size();
    while (index < size) {
      places.add(tokens + order[index]);
      index += step;
      sum += remainder;
      if (sum >= kMostLookedAt) {
        sum -= kMostLookedAt;
        ++index;
      }
    }
    index -= size;
  }
  return places;
}

// The length of the longest context that at least kFrequent positions have, of those with the last
// three tokens. The contexts of as many positions on each side of a run's place have the longest
// ones of it.
std::int64_t Matches::longest_frequent(std::int64_t longest) const {
  std::array<std::size_t, kMaxContext + 1> counts{};  // positions seen, by their length
  std::int64_t enough = 3;  // length that at least kFrequent positions seen have
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    if (places_[i].longest() <= enough) continue;
    const auto count = [&](auto&& length_of) {
      for (std::size_t n = 0; n < TokenArchive::kFrequent; ++n) {
        const std::int64_t length = length_of(n);
        if (length <= enough) return;
        ++counts[static_cast<std::size_t>(length)];
      }
    };
    count([&](std::size_t n) { return places_[i].length_before(n); });
    count([&](std::size_t n) { return places_[i].length_after(n); });
    std::size_t num_seen = 0;
    for (std::int64_t length = longest; length > enough; --length) {
      num_seen += counts[static_cast<std::size_t>(length)];
      if (num_seen >= TokenArchive::kFrequent) enough = length;
    }
  }
  return enough;
}

}  // namespace caption::drafts
