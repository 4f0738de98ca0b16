// The scheduler's part that shares prefixes: which pages of a prompt are there already.
#include <algorithm>

#include "scheduler/internal/sequence.h"
#include "scheduler/scheduler.h"

namespace caption::scheduler {

// Named pages that need not be computed: the last known token must be, for its logits.
std::int64_t Scheduler::num_reusable_pages(const Sequence& sequence) const {
  return std::min(static_cast<std::int64_t>(sequence.spec.prompt_pages.size()),
                  (sequence.num_known - 1) / kv::kPageTokens);
}

// The pages of the longest prefix that the pool holds; returns how many of them are used, so that
// sharing them costs nothing.
std::int64_t Scheduler::find_prefix(const Sequence& sequence) {
  found_.clear();
  std::int64_t num_used = 0;
  const std::int64_t num_pages = num_reusable_pages(sequence);
  for (std::int64_t i = 0; i < num_pages; ++i) {
    const auto page = pool_.find(sequence.spec.prompt_pages[static_cast<std::size_t>(i)]);
    if (!page.has_value()) break;
    found_.push_back(*page);
    if (pool_.num_references(*page) > 0) ++num_used;
  }
  return num_used;
}

bool Scheduler::waits_for_prefix(const Sequence& sequence, std::int64_t num_pages_found) const {
  if (options_.mode == Mode::kStatic || num_pages_found >= num_reusable_pages(sequence)) {
    return false;
  }
  return in_work_.contains(sequence.spec.prompt_pages[static_cast<std::size_t>(num_pages_found)]);
}

// Makes the empty table name what find_prefix() found and what the tier holds beyond it.
void Scheduler::take_prefix(Sequence& sequence) {
  if (sequence.spec.prompt_pages.empty()) return;
  for (const kv::PageId page : found_) sequence.table().append_shared(page);
  restore_prefix(sequence);
  sequence.num_computed = sequence.table().num_tokens();
  sequence.num_cached = sequence.num_computed;
  prefix_stats_.lookup_tokens += sequence.spec.num_prompt_tokens;
  prefix_stats_.hit_tokens += sequence.num_computed;
  const auto& contents = sequence.spec.prompt_pages;
  for (auto i = static_cast<std::size_t>(sequence.num_computed / kv::kPageTokens);
       i < contents.size(); ++i) {
    in_work_.emplace(contents[i], &sequence);
  }
}

void Scheduler::restore_prefix(Sequence& sequence) {
  if (tier_ == nullptr) return;
  kv::PageTable& table = sequence.table();
  const std::int64_t num_pages = num_reusable_pages(sequence);
  for (auto i = static_cast<std::int64_t>(table.pages().size()); i < num_pages; ++i) {
    const Hash128& content = sequence.spec.prompt_pages[static_cast<std::size_t>(i)];
    const std::int64_t num_before = table.num_tokens();
    if (table.append(kv::kPageTokens, plan_.copies) == kv::Fit::kNoRoom) return;
    if (!tier_->restore(content, table.pages().back())) return table.truncate(num_before);
    pool_.publish(table.pages().back(), content);
    prefix_stats_.tier_tokens += kv::kPageTokens;
  }
}

void Scheduler::publish_pages(Sequence& sequence, std::int64_t num_computed_before) {
  const auto& contents = sequence.spec.prompt_pages;
  const std::int64_t end =
      std::min(static_cast<std::int64_t>(contents.size()), sequence.num_computed / kv::kPageTokens);
  for (std::int64_t i = num_computed_before / kv::kPageTokens; i < end; ++i) {
    const auto idx = static_cast<std::size_t>(i);
    pool_.publish(sequence.table().pages()[idx], contents[idx]);
    if (tier_ != nullptr) tier_->store(contents[idx], sequence.table().pages()[idx]);
    const auto in_work = in_work_.find(contents[idx]);
    if (in_work != in_work_.end() && in_work->second == &sequence) in_work_.erase(in_work);
  }
}

void Scheduler::forget_pages_in_work(const Sequence& sequence) {
  const auto& contents = sequence.spec.prompt_pages;
  for (auto i = static_cast<std::size_t>(sequence.num_computed / kv::kPageTokens);
       i < contents.size(); ++i) {
    const auto in_work = in_work_.find(contents[i]);
    if (in_work != in_work_.end() && in_work->second == &sequence) in_work_.erase(in_work);
  }
}

}  // namespace caption::scheduler
