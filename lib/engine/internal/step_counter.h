// engine/internal/step_counter.h: the counters of EngineStats.
#pragma once

#include <cstdint>

#include "engine/engine.h"
#include "engine/internal/sequence.h"
#include "kv/page_pool.h"
#include "scheduler/scheduler.h"

namespace caption::engine {

class StepCounter {
 public:
  StepCounter(std::int64_t num_pages, std::int64_t page_bytes) {
    sums_.pages_total = num_pages;
    sums_.page_bytes = page_bytes;
  }

  // Counts a step that was computed and committed, but whose requests have not advanced.
  // `compression_bytes` is the memory of compressed attention besides the pages.
  void add_step(const scheduler::StepPlan& plan, const scheduler::Scheduler& scheduler,
                const kv::PagePool& pool, std::int64_t compression_bytes);
  // Counts the tokens of one sequence of that step.
  void add_tokens(const scheduler::PlannedSequence& planned, Sequence& sequence);
  // Counts a draft of that step that was right.
  void add_accepted(Sequence& sequence);
  void add_preemptions(std::int64_t count) { sums_.preemptions += count; }
  // Counts the time of the step, whose tokens are counted.
  void add_busy_us(std::int64_t us);

  EngineStats stats(const kv::PagePool& pool, const scheduler::PrefixStats& prefix) const;

 private:
  EngineStats sums_;  // its mean_* members hold sums over steps
  // Before the step.
  std::int64_t prefill_tokens_before_ = 0;
  std::int64_t decode_tokens_before_ = 0;
};

}  // namespace caption::engine
