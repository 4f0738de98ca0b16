// scheduler/options.h: the budgets and modes of a scheduler; constant after construction.
#pragma once

#include <cstdint>

namespace caption::scheduler {

enum class BatchMode {
  kContinuous,  // finished sequences leave and waiting ones enter at every step
  kStatic,      // a batch admitted together runs until all its members are finished
};

enum class PrefillMode {
  kChunked,  // a prompt may be split over steps at any token
  kWhole,    // a prompt is computed in one step
};

inline constexpr std::int32_t kDefaultMaxSeqs = 16;
inline constexpr std::int32_t kDefaultMaxBatchedTokens = 2048;

inline constexpr std::int64_t kNoDraftLimit = std::int64_t{1} << 40;

struct SchedulerOptions {
  BatchMode mode = BatchMode::kContinuous;
  PrefillMode prefill = PrefillMode::kChunked;
  // Limits of running sequences and of the tokens computed in one step; >= 1.
  std::int64_t max_num_seqs = kDefaultMaxSeqs;
  std::int64_t max_num_batched_tokens = kDefaultMaxBatchedTokens;
  // Number of tokens that a token attends to, its own included: pages that no later token of a
  // sequence attends to are released. 0: all of them, no page is released; >= 0.
  std::int64_t window_tokens = 0;
  // Drafts of all sequences in one step; >= 0.
  std::int64_t max_drafts_per_step = kNoDraftLimit;
  // Number of waiting steps that count as much as one level of priority; >= 1.
  std::int64_t ageing_steps = 4096;
};

}  // namespace caption::scheduler
