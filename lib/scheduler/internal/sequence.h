// scheduler/internal/sequence.h: the scheduler's state of one sequence.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "kv/page_table.h"
#include "scheduler/positions.h"
#include "scheduler/scheduler.h"

namespace caption::scheduler {

struct Scheduler::Sequence {
  Sequence(SequenceSpec the_spec, Rank the_rank, kv::PagePool& pool)
      : spec(std::move(the_spec)), rank(the_rank), num_known(spec.num_prompt_tokens) {
    branches.reserve(static_cast<std::size_t>(spec.num_branches));
    for (std::int32_t i = 0; i < spec.num_branches; ++i) branches.emplace_back(pool);
    if (spec.num_branches > 1) {
      for (std::int32_t i = 0; i < spec.num_branches; ++i) next_branches.emplace_back(pool);
    }
    for (kv::PageTable& table : branches) table.reserve_pages(kv::pages_for_tokens(max_tokens()));
    for (kv::PageTable& table : next_branches) {
      table.reserve_pages(kv::pages_for_tokens(max_tokens()));
    }
  }

  // Maximum number of tokens in the pages of a branch.
  std::int64_t max_tokens() const {
    return num_positions(spec.num_prompt_tokens, spec.max_new_tokens);
  }
  std::int64_t num_remaining() const { return num_known - num_computed; }
  // Number of tokens that the next step may compute. With kOwnStep a step ends at the prompt's end.
  std::int64_t num_computable() const {
    const bool stops =
        spec.prompt_end == PromptEnd::kOwnStep && num_computed < spec.num_prompt_tokens;
    return (stops ? std::min(num_known, spec.num_prompt_tokens) : num_known) - num_computed;
  }
  // Whether the table's last page is shared with another prompt, up to num_computed.
  bool ends_in_shared_part() const {
    return shares_part && num_computed == spec.prompt_part.num_tokens;
  }
  // Whether a step that computes the last known token may compute drafts after it.
  bool may_have_drafts() const {
    const bool stops =
        spec.prompt_end == PromptEnd::kOwnStep && num_computed < spec.num_prompt_tokens;
    return spec.num_branches == 1 && !stops;
  }
  bool is_forked() const { return num_active > 1; }
  const kv::PageTable& table() const { return branches.front(); }
  kv::PageTable& table() { return branches.front(); }

  SequenceSpec spec;
  Rank rank;
  std::int64_t num_known = 0;       // tokens of the prompt and the output so far, per branch
  std::int64_t num_computed = 0;    // tokens in the pages, committed
  std::int64_t num_cached = 0;      // prompt tokens that were in the cache at admission
  std::int64_t num_saved = 0;       // computed tokens minus the slots they occupy
  std::int64_t num_drafts = 0;      // offered for the next step
  std::int64_t num_unverified = 0;  // drafts that the last step computed
  bool shares_part = false;         // prompt_part was found in the pool at admission
  std::int32_t num_active = 1;      // branches with tokens: 1 before the first fork, then all
  std::vector<kv::PageTable> branches;
  std::vector<kv::PageTable> next_branches;  // used by fork(); empty between calls
};

}  // namespace caption::scheduler
