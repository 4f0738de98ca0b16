// scheduler/options.h: the budgets and rules of a scheduler; const once it stands.
#pragma once

#include <cstdint>

namespace caption::scheduler {

enum class Mode {
  kContinuous,  // finished sequences leave and waiting ones enter at every step
  kStatic,      // a batch admitted together runs until all its members are finished
};

enum class PrefillMode {
  kChunked,  // a prompt may be split over steps, anywhere
  kWhole,    // a prompt is computed in one step
};

struct SchedulerOptions {
  Mode mode = Mode::kContinuous;
  PrefillMode prefill = PrefillMode::kChunked;
  std::int64_t max_num_seqs = 16;              // running at a time; >= 1
  std::int64_t max_num_batched_tokens = 2048;  // computed in one step; >= 1
  // Steps of waiting that make up for one level of priority; >= 1.
  std::int64_t ageing_steps = 4096;
};

}  // namespace caption::scheduler
