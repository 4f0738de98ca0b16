// engine/internal/drafted_engine.h: what a self-draft uses of the engine whose tokens it guesses.
#pragma once

#include <cstdint>

#include "engine/internal/sequence.h"
#include "engine/internal/step_runner.h"
#include "kv/page_pool.h"
#include "kv/page_table.h"
#include "sampling/sampler.h"
#include "scheduler/scheduler.h"

namespace caption::engine {

// All members are borrowed from the engine. A sequence's number is DraftQuery::sequence.
struct DraftedEngine {
  StepRunner& runner;
  const kv::PagePool& pool;
  sampling::Sampler& sampler;
  const scheduler::Scheduler& scheduler;
  const Sequences& sequences;

  const Sequence& sequence(std::int64_t number) const { return *sequences.at(RequestId{number}); }
  const kv::PageTable& pages(std::int64_t number) const {
    return scheduler.pages_of(scheduler::SequenceId{number});
  }
};

}  // namespace caption::engine
