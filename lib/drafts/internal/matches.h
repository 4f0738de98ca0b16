// drafts/internal/matches.h: what the runs of an archive have after a text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "drafts/internal/context_index.h"
#include "drafts/internal/places.h"
#include "drafts/internal/token_run.h"
#include "drafts/token_archive.h"

namespace caption::drafts {

// An archive has at most as many runs, since each is several times as long as the next.
inline constexpr std::size_t kMostRuns = 16;

// The positions in all runs that have the last tokens of a text before them. The positions after
// its last one, two and three tokens are adjacent in the order of each run. Few positions after
// three are compared one by one, many are searched (ContextPlace). The runs must outlive it.
class Matches {
 public:
  Matches(std::span<const TokenRun> runs, std::span<const std::int32_t> text);
  // Appends to `guesses`, and to `frequent` if it is not null, what TokenArchive::guess() says.
  void guess(std::int64_t most, std::vector<Guess>& guesses, std::vector<Guess>* frequent);

 private:
  static constexpr std::size_t kMostLookedAt = 48;
  static_assert(kMostLookedAt <= Places::kMost);

  // The positions after the last `length` tokens, as ranges of each run's order.
  struct Level {
    explicit Level(std::int64_t tokens) : length(tokens) {}
    void set(std::size_t run, ContextIndex::Range range) {
      ranges[run] = range;
      count += range.size();
    }
    std::int64_t length;
    std::size_t count = 0;
    // [i] is the range in run i. They are not set while count is 0.
    std::array<ContextIndex::Range, kMostRuns + 1> ranges;
  };

  void find_last();
  void find_pairs();
  void find_triples();
  Level find_in_places(std::int64_t length) const;
  // The places of the level, or as many of them as lie at one of kMostLookedAt evenly spaced
  // indices.
  Places look_at(const Level& level) const;
  void guess_from_few(std::int64_t most, std::vector<Guess>& guesses, std::vector<Guess>* frequent);
  void guess_from_many(std::int64_t most, std::vector<Guess>& guesses,
                       std::vector<Guess>* frequent);
  std::int64_t longest_frequent(std::int64_t longest) const;

  const std::span<const TokenRun> runs_;
  const Context context_;
  const ContextKey last_;
  const ContextKey pair_;  // unused where the context has one token
  Level one_{1};
  Level two_{2};
  Level three_{3};
  std::array<ContextPlace, kMostRuns + 1>
      places_;  // [i] is that in run i; guess_from_many() sets it
};

}  // namespace caption::drafts
