// The part of the scheduler that shares prefixes between prompts.
#include <algorithm>
#include <iterator>

#include "scheduler/internal/sequence.h"
#include "scheduler/scheduler.h"

namespace caption::scheduler {

// Pages with content hashes that need not be computed. The last known token must be computed,
// because its logits are needed.
std::int64_t Scheduler::num_reusable_pages(const Sequence& sequence) const {
  return std::min(static_cast<std::int64_t>(sequence.spec.prompt_pages.size()),
                  (sequence.num_known - 1) / kv::kPageTokens);
}

// Whether the page after `num_pages` full ones may be shared up to the end of the prompt's part.
// The page and its copy coexist for a while, so the pool must be larger than the sequence needs.
bool Scheduler::may_share_part(const Sequence& sequence, std::int64_t num_pages) const {
  const PromptPart& part = sequence.spec.prompt_part;
  return part.num_tokens > 0 && part.page() == num_pages && part.num_tokens < sequence.num_known &&
         most_pages(sequence.spec) < pool_.num_pages();
}

// Finds the pages of the longest prefix in the pool. Returns the number of pages by which the
// demand for free pages decreases: a page in use needs no free one, while an unreferenced cached
// page counts as free until it is taken.
std::int64_t Scheduler::find_prefix(const Sequence& sequence) {
  found_.clear();
  found_part_.reset();
  std::int64_t num_used = 0;
  const std::int64_t num_pages = num_reusable_pages(sequence);
  for (std::int64_t i = 0; i < num_pages; ++i) {
    const auto page = pool_.find(sequence.spec.prompt_pages[static_cast<std::size_t>(i)]);
    if (!page.has_value()) break;
    found_.push_back(*page);
    if (pool_.num_references(*page) > 0) ++num_used;
  }
  if (!may_share_part(sequence, std::ssize(found_))) return num_used;
  found_part_ = pool_.find(sequence.spec.prompt_part.content);
  // The page is copied, so an unreferenced cached page costs one free page in addition to the copy.
  const bool is_cached = found_part_.has_value() && pool_.num_references(*found_part_) == 0;
  return num_used - (is_cached ? 1 : 0);
}

bool Scheduler::waits_for_prefix(const Sequence& sequence, std::int64_t num_pages_found) const {
  if (options_.mode == BatchMode::kStatic || num_pages_found >= num_reusable_pages(sequence)) {
    return false;
  }
  return in_work_.contains(sequence.spec.prompt_pages[static_cast<std::size_t>(num_pages_found)]);
}

// Fills the empty table with the pages of find_prefix() and with further pages from the tier.
void Scheduler::take_prefix(Sequence& sequence) {
  if (sequence.spec.prompt_pages.empty()) return;
  for (const kv::PageId page : found_) sequence.table().append_shared(page);
  restore_prefix(sequence);
  restore_part(sequence);
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

// Returns whether the tier had the page, of which `num_tokens` tokens are the sequence's.
bool Scheduler::restore_page(const Hash128& content, kv::PageId page, std::int64_t num_tokens) {
  switch (tier_->restore(content, page)) {
    case kv::TierHit::kNone: return false;
    case kv::TierHit::kHostMemory: prefix_stats_.host_tokens += num_tokens; return true;
    case kv::TierHit::kDisk: prefix_stats_.disk_tokens += num_tokens; return true;
  }
  return false;
}

void Scheduler::restore_prefix(Sequence& sequence) {
  if (tier_ == nullptr) return;
  kv::PageTable& table = sequence.table();
  const std::int64_t num_pages = num_reusable_pages(sequence);
  for (auto i = static_cast<std::int64_t>(table.pages().size()); i < num_pages; ++i) {
    const Hash128& content = sequence.spec.prompt_pages[static_cast<std::size_t>(i)];
    const std::int64_t num_before = table.num_tokens();
    if (table.append(kv::kPageTokens, plan_.copies) == kv::Fit::kNoRoom) return;
    if (!restore_page(content, table.pages().back(), kv::kPageTokens)) {
      return table.truncate(num_before);
    }
    pool_.publish(table.pages().back(), content);
  }
}

void Scheduler::restore_part(Sequence& sequence) {
  kv::PageTable& table = sequence.table();
  if (!may_share_part(sequence, std::ssize(table.pages()))) return;
  const PromptPart& part = sequence.spec.prompt_part;
  // Pages allocated for restore_prefix() may have evicted the page.
  if (found_part_.has_value()) found_part_ = pool_.find(part.content);
  if (found_part_.has_value()) {
    table.append_shared(*found_part_, part.tokens_in_page());
    sequence.shares_part = true;
    return;
  }
  if (tier_ == nullptr) return;
  const std::int64_t num_before = table.num_tokens();
  if (table.append(part.tokens_in_page(), plan_.copies) == kv::Fit::kNoRoom) return;
  if (!restore_page(part.content, table.pages().back(), part.tokens_in_page())) {
    table.truncate(num_before);
  }
}

void Scheduler::publish_pages(Sequence& sequence, std::int64_t num_computed_before) {
  const auto& contents = sequence.spec.prompt_pages;
  const PromptPart& part = sequence.spec.prompt_part;
  if (tier_ != nullptr && num_computed_before < part.num_tokens &&
      sequence.num_computed >= part.num_tokens) {
    tier_->store(part.content, sequence.table().pages()[static_cast<std::size_t>(part.page())]);
  }
  const std::int64_t end =
      std::min(static_cast<std::int64_t>(contents.size()), sequence.num_computed / kv::kPageTokens);
  for (std::int64_t i = num_computed_before / kv::kPageTokens; i < end; ++i) {
    const auto idx = static_cast<std::size_t>(i);
    pool_.publish(sequence.table().pages()[idx], contents[idx]);
    if (tier_ != nullptr) tier_->store(contents[idx], sequence.table().pages()[idx]);
    if (part.num_tokens > 0 && part.page() == i) {
      pool_.publish_part(sequence.table().pages()[idx], part.content);
    }
    const auto in_work = in_work_.find(contents[idx]);
    if (in_work != in_work_.end() && in_work->second == &sequence) in_work_.erase(in_work);
  }
}

// A page with the part's end inside could not be published while the sequence wrote to it; it is
// published when the sequence leaves, or the page its window.
void Scheduler::leave_part(Sequence& sequence) {
  const PromptPart& part = sequence.spec.prompt_part;
  if (part.num_tokens == 0 || sequence.num_computed < part.num_tokens) return;
  const kv::PageId page = sequence.table().pages()[static_cast<std::size_t>(part.page())];
  if (page != kv::kNoPage && pool_.is_writable(page)) pool_.publish(page, part.content);
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
