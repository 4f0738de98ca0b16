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

// The positions in all runs that have the last tokens of a text before them. The work is done for
// all runs at a time, step by step, so that their memory is waited for together. The runs must
// outlive it.
class Matches {
 public:
  Matches(std::span<const TokenRun> runs, std::span<const std::int32_t> text);
  // Appends to `guesses`, and to `frequent` if it is not null, what TokenArchive::guess() says.
  void guess(std::int64_t most, std::vector<Guess>& guesses, std::vector<Guess>* frequent);

 private:
  // What a run has.
  struct Found {
    Found() {}  // leaves all uninitialised: most of them are not used
    // [i] are the positions after the last i + 1 tokens, indexed tokens in all.
    std::array<IndexRange, kMaxContext> ranges;
    std::int64_t indexed;
    // Where the last of them are so few that the index has no longer context, [i] is the number of
    // tokens that the i-th of them shares with the text; otherwise num_few is 0.
    std::array<std::uint8_t, kMostUnsplit> shared;
    std::size_t num_few;

    // The positions after the last `length` >= 1 tokens.
    IndexRange after(std::int64_t length) const;
  };

  ContextHash hash_of(std::int64_t length);
  void prefetch_slots(const TokenRun& run);
  void search(const TokenRun& run, Found& found);
  void compare_few(const TokenRun& run, Found& found);
  // The length of the longest context that at least `least` positions have; 0 where none has.
  std::int64_t longest_with(std::size_t least) const;
  // Appends the guesses after the last `length` tokens.
  void append(std::int64_t length, std::int64_t most, std::vector<Guess>& guesses) const;
  void append_from(const TokenRun& run, IndexRange range, std::int64_t length, std::int64_t most,
                   std::vector<Guess>& guesses) const;

  const std::span<const TokenRun> runs_;
  const Context context_;
  std::array<ContextHash, kMaxContext + 1> hashes_;  // [i] is the hash of the last i tokens
  std::int64_t num_hashes_ = 1;                      // so many of hashes_ are computed
  // [i] is the number of positions after the last i tokens, found by index or, if more, compared.
  std::array<std::size_t, kMaxContext + 1> counts_{};
  std::array<Found, kMostRuns + 1> found_;  // [i] in run i
};

}  // namespace caption::drafts
