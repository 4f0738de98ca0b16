// drafts/internal/run_builder.h: makes a run of others, in pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "drafts/internal/order_merge.h"
#include "drafts/internal/token_run.h"

namespace caption::drafts {

// A run of the texts of another one, or of two, with its index and continuations. The arrays of
// those runs are borrowed; the runs may be moved.
class RunBuilder {
 public:
  // All texts of `older`, then those of `newer`.
  RunBuilder(const TokenRun& older, const TokenRun& newer);
  // The texts of a run that do not begin in its older half.
  static RunBuilder newest_half(const TokenRun& run);
  // Adds the index to a run that has none.
  explicit RunBuilder(TokenRun run);

  // Computes on for so many steps of about 0.1 us, or a few more; returns whether the run is
  // complete. One of n tokens takes some 4 n steps, at most 8 n.
  bool advance(std::int64_t steps);
  // The complete run; without any text where all were left out.
  TokenRun take();
  // Compute all steps at once and return the complete run.
  TokenRun build();
  TokenRun build_without_index();

 private:
  enum class Phase { kTokens, kOrder, kContexts, kTables, kIndex, kContinuations, kComplete };
  static Phase next(Phase phase) { return static_cast<Phase>(static_cast<int>(phase) + 1); }

  RunBuilder(const TokenRun& older, std::size_t first, std::span<const std::int32_t> newer_tokens,
             const OrderPart& newer);
  // Each goes on with a phase as advance() does, and returns whether that is complete.
  bool copy_tokens(std::int64_t& steps);
  bool clear_tables(std::int64_t& steps);
  bool fill_index(std::int64_t& steps);
  bool fill_continuations(std::int64_t& steps);
  bool advance_phase(std::int64_t& steps);
  // Makes what the next phase needs.
  void begin(Phase phase);

  Phase phase_ = Phase::kTokens;
  std::size_t next_ = 0;  // what the phase has come to
  // Tokens of both runs, the last kBegin of the older one left out.
  std::span<const std::int32_t> older_tokens_;
  std::span<const std::int32_t> newer_tokens_;
  std::size_t num_positions_ = 0;
  std::optional<OrderMerge> merge_;
  std::optional<ContextList> contexts_;
  TokenRun run_;
};

}  // namespace caption::drafts
