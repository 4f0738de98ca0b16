#include "drafts/internal/run_builder.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace caption::drafts {
namespace {

constexpr std::size_t kTokensPerStep = 16;
// The system may have to find and clear the memory of a page.
constexpr std::size_t kPageBytes = 4096;
constexpr std::int64_t kStepsPerPage = 32;
constexpr std::int64_t kStepsPerContinuation = 24;

// The index in `tokens` of the kBegin before the first text that does not begin in their older
// half, or that of the last kBegin where there is none.
std::size_t first_of_newest_half(std::span<const std::int32_t> tokens) {
  const auto middle = tokens.begin() + std::max<std::int64_t>(1, std::ssize(tokens) / 2);
  return static_cast<std::size_t>(std::find(middle, tokens.end(), kBegin) - tokens.begin());
}

}  // namespace

RunBuilder::RunBuilder(const TokenRun& older, std::size_t first,
                       std::span<const std::int32_t> newer_tokens, const OrderPart& newer)
    : older_tokens_(std::span(older.tokens).subspan(first, older.length() - first)),
      newer_tokens_(newer_tokens) {
  const auto cut = static_cast<std::uint32_t>(first);
  merge_.emplace(
      OrderPart{.order = older.order, .shared = older.shared, .first = cut, .shift = -cut}, newer);
  run_.tokens.resize(older_tokens_.size() + newer_tokens_.size());
}

RunBuilder::RunBuilder(const TokenRun& older, const TokenRun& newer)
    : RunBuilder(older, 0, newer.tokens,
                 {.order = newer.order,
                  .shared = newer.shared,
                  .shift = static_cast<std::uint32_t>(older.length())}) {}

RunBuilder RunBuilder::newest_half(const TokenRun& run) {
  return {run, first_of_newest_half(run.tokens), std::span(run.tokens).last(1), {}};
}

RunBuilder::RunBuilder(TokenRun run) : num_positions_(run.order.size()), run_(std::move(run)) {
  begin(Phase::kContexts);
}

bool RunBuilder::advance(std::int64_t steps) {
  while (steps > 0 && phase_ != Phase::kComplete) {
    if (advance_phase(steps)) begin(next(phase_));
  }
  return phase_ == Phase::kComplete;
}

bool RunBuilder::advance_phase(std::int64_t& steps) {
  switch (phase_) {
    case Phase::kTokens: return copy_tokens(steps);
    case Phase::kOrder: return merge_->advance(steps, run_.tokens, run_.order, run_.shared);
    case Phase::kContexts: return contexts_->advance(steps);
    case Phase::kTables: return clear_tables(steps);
    case Phase::kIndex: return fill_index(steps);
    case Phase::kContinuations: return fill_continuations(steps);
    case Phase::kComplete: break;
  }
  return true;
}

void RunBuilder::begin(Phase phase) {
  phase_ = phase;
  next_ = 0;
  if (phase == Phase::kOrder) {
    run_.order.resize(num_positions_);
    run_.shared.resize(num_positions_);
  } else if (phase == Phase::kContexts) {
    contexts_.emplace(run_.tokens, run_.order, run_.shared);
  } else if (phase == Phase::kTables) {
    run_.index = ContextIndex(*contexts_);
    run_.continuations = Continuations(*contexts_, run_.order.size());
  } else if (phase == Phase::kComplete) {
    contexts_.reset();
    want_huge_pages(run_.tokens);
    want_huge_pages(run_.order);
    want_huge_pages(run_.shared);
    run_.index.want_huge_pages();
    run_.continuations.want_huge_pages();
  }
}

bool RunBuilder::copy_tokens(std::int64_t& steps) {
  for (; steps > 0 && next_ < run_.tokens.size(); --steps) {
    const bool is_older = next_ < older_tokens_.size();
    const std::span<const std::int32_t> from =
        is_older ? older_tokens_.subspan(next_)
                 : newer_tokens_.subspan(next_ - older_tokens_.size());
    const std::span<const std::int32_t> piece = from.first(std::min(from.size(), kTokensPerStep));
    std::copy(piece.begin(), piece.end(), run_.tokens.begin() + static_cast<std::ptrdiff_t>(next_));
    num_positions_ +=
        piece.size() - static_cast<std::size_t>(std::count(piece.begin(), piece.end(), kBegin));
    next_ += piece.size();
  }
  return next_ == run_.tokens.size();
}

bool RunBuilder::clear_tables(std::int64_t& steps) {
  const std::span<std::byte> index = run_.index.memory();
  const std::span<std::byte> continuations = run_.continuations.memory();
  for (; steps > 0 && next_ < index.size() + continuations.size(); steps -= kStepsPerPage) {
    const std::span<std::byte> from =
        next_ < index.size() ? index.subspan(next_) : continuations.subspan(next_ - index.size());
    const std::span<std::byte> page = from.first(std::min(from.size(), kPageBytes));
    std::fill(page.begin(), page.end(), std::byte{0});
    next_ += page.size();
  }
  return next_ == index.size() + continuations.size();
}

bool RunBuilder::fill_index(std::int64_t& steps) {
  constexpr std::size_t kAhead = 16;
  const std::span<const ContextItem> items = contexts_->items();
  for (; steps > 0 && next_ < items.size(); --steps) {
    if (next_ + kAhead < items.size()) run_.index.prefetch(items[next_ + kAhead].hash);
    run_.index.insert(items[next_++]);
  }
  return next_ == items.size();
}

bool RunBuilder::fill_continuations(std::int64_t& steps) {
  constexpr std::size_t kItemsPerStep = 16;
  if (run_.continuations.size_bytes() == 0) return true;
  const std::span<const ContextItem> items = contexts_->items();
  for (; steps > 0 && next_ < items.size(); --steps) {
    const std::size_t end = std::min(items.size(), next_ + kItemsPerStep);
    for (; next_ < end; ++next_) {
      if (items[next_].positions.size() < run_.continuations.least()) continue;
      run_.continuations.insert(items[next_], run_.tokens, run_.order);
      steps -= kStepsPerContinuation;
    }
  }
  return next_ == items.size();
}

TokenRun RunBuilder::take() { return std::move(run_); }

TokenRun RunBuilder::build() {
  advance(std::numeric_limits<std::int64_t>::max());
  return take();
}

TokenRun RunBuilder::build_without_index() {
  std::int64_t steps = std::numeric_limits<std::int64_t>::max();
  for (; phase_ < Phase::kContexts; begin(next(phase_))) advance_phase(steps);
  return take();
}

}  // namespace caption::drafts
