#include "drafts/internal/matches.h"

#include <algorithm>

namespace caption::drafts {
namespace {

// The slots of so many longer contexts are prefetched while that of one is read. Captions of one
// style have long contexts in common, rare ones are short.
constexpr std::int64_t kAhead = 4;

}  // namespace

Matches::Matches(std::span<const TokenRun> runs, std::span<const std::int32_t> text)
    : runs_(runs), context_(text) {
  for (const TokenRun& run : runs_) prefetch_slots(run);
  for (std::size_t i = 0; i < runs_.size(); ++i) search(runs_[i], found_[i]);
  for (std::size_t i = 0; i < runs_.size(); ++i) compare_few(runs_[i], found_[i]);
}

ContextHash Matches::hash_of(std::int64_t length) {
  for (; num_hashes_ <= length; ++num_hashes_) {
    const auto i = static_cast<std::size_t>(num_hashes_);
    hashes_[i] = hashes_[i - 1].before(context_.at(num_hashes_ - 1));
  }
  return hashes_[static_cast<std::size_t>(length)];
}

void Matches::prefetch_slots(const TokenRun& run) {
  const std::int64_t longest = std::min(context_.size(), kAhead);
  for (std::int64_t length = 1; length <= longest; ++length) run.index.prefetch(hash_of(length));
}

void Matches::search(const TokenRun& run, Found& found) {
  found.indexed = 0;
  found.num_few = 0;
  ContextIndex::Entry last;
  std::int64_t counted = 0;  // length of the longest context whose continuations may be known
  for (std::int64_t length = 1; length <= context_.size(); ++length) {
    if (length + kAhead <= context_.size()) run.index.prefetch(hash_of(length + kAhead));
    const ContextIndex::Entry entry = run.index.find(hash_of(length));
    const std::size_t size = entry.positions.size();
    if (size == 0) break;
    last = entry;
    found.ranges[static_cast<std::size_t>(length - 1)] = entry.positions;
    found.indexed = length;
    counts_[static_cast<std::size_t>(length)] += size;
    if (size >= run.continuations.least()) counted = length;
    if (size < run.index.least_split()) break;
  }
  if (counted > 0) run.continuations.prefetch(hash_of(counted));
  const std::size_t size = last.positions.size();
  if (size == 0 || size >= run.index.least_split()) return;
  __builtin_prefetch(run.tokens.data() + last.position - 1);
  __builtin_prefetch(&run.order[last.positions.begin]);
  if (found.indexed < context_.size()) found.num_few = size;
  if (size > 1) __builtin_prefetch(&run.shared[last.positions.begin]);
}

// Positions are in the order of their contexts, so that one shares as many tokens with the text as
// the one before it, unless the two share as many with each other, or fewer.
void Matches::compare_few(const TokenRun& run, Found& found) {
  if (found.num_few == 0) return;
  const std::uint32_t begin = found.ranges[static_cast<std::size_t>(found.indexed - 1)].begin;
  std::int64_t length = found.indexed;
  for (std::size_t i = 0; i < found.num_few; ++i) {
    const std::int64_t shared = i == 0 ? length : run.shared[begin + i];
    length = std::min(length, shared);
    if (length == shared) {
      const std::int32_t* const next = run.tokens.data() + run.order[begin + i].position;
      while (length < context_.size() && next[-1 - length] == context_.at(length)) ++length;
    }
    found.shared[i] = static_cast<std::uint8_t>(length);
    for (std::int64_t k = found.indexed; k < length;) ++counts_[static_cast<std::size_t>(++k)];
  }
}

IndexRange Matches::Found::after(std::int64_t length) const {
  if (length <= indexed) return ranges[static_cast<std::size_t>(length - 1)];
  const auto is_as_long = [&](std::uint8_t number) { return number >= length; };
  const auto end = shared.begin() + static_cast<std::ptrdiff_t>(num_few);
  const auto first = std::find_if(shared.begin(), end, is_as_long);
  const auto last = std::find_if_not(first, end, is_as_long);
  if (first == end) return {0, 0};
  const std::uint32_t begin = ranges[static_cast<std::size_t>(indexed - 1)].begin;
  return {begin + static_cast<std::uint32_t>(first - shared.begin()),
          begin + static_cast<std::uint32_t>(last - shared.begin())};
}

std::int64_t Matches::longest_with(std::size_t least) const {
  std::int64_t length = context_.size();
  while (length > 0 && counts_[static_cast<std::size_t>(length)] < least) --length;
  return length;
}

void Matches::guess(std::int64_t most, std::vector<Guess>& guesses, std::vector<Guess>* frequent) {
  const std::int64_t longest = longest_with(1);
  if (longest == 0) return;
  append(longest, most, guesses);
  if (frequent == nullptr) return;
  const std::int64_t shorter = longest_with(TokenArchive::kFrequent);
  if (shorter > 0 && shorter < longest) append(shorter, most, *frequent);
}

void Matches::append(std::int64_t length, std::int64_t most, std::vector<Guess>& guesses) const {
  if (counts_[static_cast<std::size_t>(length)] >= TokenArchive::kFrequent) {
    std::size_t largest = 0;
    IndexRange range = found_[0].after(length);
    for (std::size_t i = 1; i < runs_.size(); ++i) {
      const IndexRange other = found_[i].after(length);
      if (other.size() <= range.size()) continue;
      largest = i;
      range = other;
    }
    return append_from(runs_[largest], range, length, most, guesses);
  }
  Places places;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const IndexRange range = found_[i].after(length);
    for (std::uint32_t k = range.begin; k < range.end; ++k) {
      places.add(runs_[i].tokens.data(), runs_[i].order.data() + k);
    }
  }
  continue_texts(places, length, most, guesses);
}

void Matches::append_from(const TokenRun& run, IndexRange range, std::int64_t length,
                          std::int64_t most, std::vector<Guess>& guesses) const {
  const Continuation* known = nullptr;
  if (most <= Continuation::kMost && range.size() >= run.continuations.least()) {
    known = run.continuations.find(hashes_[static_cast<std::size_t>(length)]);
  }
  if (known == nullptr) {
    Places places = places_in(run.tokens.data(), run.order.data(), range);
    continue_texts(places, length, most, guesses);
    return;
  }
  std::int32_t total = known->total;
  const std::ptrdiff_t count = std::min<std::ptrdiff_t>(most, known->num_guesses);
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    const std::int32_t equal = known->counts[i];
    guesses.push_back({known->tokens[i], static_cast<std::int32_t>(length + i), equal, total});
    total = equal;
  }
}

}  // namespace caption::drafts
