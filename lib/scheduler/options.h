// scheduler/options.h: the budgets and modes of a scheduler; constant after construction.
#pragma once

#include <cstdint>

namespace caption::scheduler {

enum class Mode {
  kContinuous,  // finished sequences leave and waiting ones enter at every step
  kStatic,      // a batch admitted together runs until all its members are finished
};

enum class PrefillMode {
  kChunked,  // a prompt may be split over steps at any token
  kWhole,    // a prompt is computed in one step
};

struct SchedulerOptions {
  Mode mode = Mode::kContinuous;
  PrefillMode prefill = PrefillMode::kChunked;
  std::int64_t max_num_seqs = 16;              // limit on running sequences; >= 1
  std::int64_t max_num_batched_tokens = 2048;  // limit on the tokens computed in one step; >= 1
  // Number of waiting steps that count as much as one level of priority; >= 1.
  std::int64_t ageing_steps = 4096;
};

}  // namespace caption::scheduler
