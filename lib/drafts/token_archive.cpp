#include "drafts/token_archive.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <mutex>
#include <utility>

#include "drafts/internal/matches.h"
#include "drafts/internal/run_builder.h"
#include "drafts/internal/token_run.h"

namespace caption::drafts {
namespace {

// A run at least 1/8 as long as the one before it is merged with that.
constexpr std::size_t kMergeRatio = 8;
// Two runs that have so many tokens together, or fewer, are merged at once.
constexpr std::size_t kAtOnce = 4096;
// Every rebuild makes so many steps for a token that is added. A run of n tokens is so complete
// before n / kMergeRatio tokens were added, after which it may have to be merged again
// (RunBuilder::advance()).
constexpr std::int64_t kStepsPerToken = 128;
constexpr std::int64_t kStepsOfMergeOn = 10'000;  // some 1 ms
constexpr std::int64_t kLeastBytesPerToken = sizeof(std::int32_t) + sizeof(OrderEntry) + 1;

}  // namespace

struct TokenArchive::Rebuild {
  std::size_t first;  // index of its oldest run
  std::size_t count;  // 2: both are merged; 1: its newest half is kept
  RunBuilder builder;
};

TokenArchive::TokenArchive(std::int64_t max_bytes) : max_bytes_(max_bytes) {}
TokenArchive::~TokenArchive() = default;

std::int64_t TokenArchive::bytes_of_runs() const {
  std::int64_t bytes = 0;
  for (const TokenRun& run : runs_) bytes += run.size_bytes();
  return bytes;
}

bool TokenArchive::is_read(std::size_t run) const {
  return std::any_of(rebuilds_.begin(), rebuilds_.end(), [run](const Rebuild& rebuild) {
    return run >= rebuild.first && run < rebuild.first + rebuild.count;
  });
}

void TokenArchive::replace(std::size_t first, std::size_t count, TokenRun run) {
  const bool is_any_left = !run.order.empty();
  {
    const std::unique_lock lock(mutex_);
    const auto begin = runs_.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = begin + static_cast<std::ptrdiff_t>(count);
    replaced_.insert(replaced_.end(), std::move_iterator(begin), std::move_iterator(end));
    const auto next = runs_.erase(begin, end);
    if (is_any_left) runs_.insert(next, std::move(run));
  }
  for (Rebuild& rebuild : rebuilds_) {
    if (rebuild.first > first) rebuild.first -= count - (is_any_left ? 1 : 0);
  }
}

void TokenArchive::free_array() {
  while (!replaced_.empty()) {
    TokenRun& run = replaced_.back();
    const bool is_freed = run.index.clear() || run.continuations.clear() || clear(run.order) ||
                          clear(run.tokens) || clear(run.shared);
    if (is_freed) return;
    replaced_.pop_back();
  }
}

void TokenArchive::forget_half() { replace(0, 1, RunBuilder::newest_half(runs_.front()).build()); }

// Forgets old texts until `num_new` more bytes can be held.
void TokenArchive::make_room(std::int64_t num_new) {
  if (bytes_of_runs() + num_new <= max_bytes_) return;
  while (!rebuilds_.empty()) rebuild(std::numeric_limits<std::int64_t>::max());
  while (!runs_.empty() && bytes_of_runs() + num_new > max_bytes_) forget_half();
}

// Merges the run with those that it replaces, while others read them. A merged run may have
// contexts in its index that the runs it was made of have in too few places.
void TokenArchive::append(TokenRun run) {
  make_room(run.size_bytes());
  const auto num_tokens = static_cast<std::int64_t>(run.length());
  std::size_t num_kept = runs_.size();
  while (num_kept > 0 && !is_read(num_kept - 1) &&
         run.length() * kMergeRatio >= runs_[num_kept - 1].length() &&
         run.length() + runs_[num_kept - 1].length() <= kAtOnce) {
    run = RunBuilder(runs_[--num_kept], run).build_without_index();
  }
  if (num_kept < runs_.size()) run = RunBuilder(std::move(run)).build();
  replace(num_kept, runs_.size() - num_kept, std::move(run));
  start_rebuilds();
  free_array();
  rebuild(num_tokens * kStepsPerToken);
  make_room(0);
  while (runs_.size() > kMostRuns) {
    rebuild(std::numeric_limits<std::int64_t>::max());
    start_rebuilds();
  }
}

void TokenArchive::start_rebuilds() {
  if (bytes_of_runs() > max_bytes_ / 8 * 7 && !is_read(0)) {
    rebuilds_.push_back({0, 1, RunBuilder::newest_half(runs_.front())});
  }
  for (std::size_t i = runs_.size(); i-- > 1;) {
    if (is_read(i) || is_read(i - 1)) continue;
    if (runs_[i].length() * kMergeRatio < runs_[i - 1].length()) continue;
    rebuilds_.push_back({i - 1, 2, RunBuilder(runs_[i - 1], runs_[i])});
  }
}

void TokenArchive::rebuild(std::int64_t steps_of_each) {
  for (auto it = rebuilds_.begin(); it != rebuilds_.end();) {
    const auto current = it++;
    if (!current->builder.advance(steps_of_each)) continue;
    const std::size_t first = current->first;
    const std::size_t count = current->count;
    TokenRun run = current->builder.take();
    rebuilds_.erase(current);
    replace(first, count, std::move(run));
  }
}

void TokenArchive::add(std::span<const std::int32_t> text) {
  if (text.empty() || std::ssize(text) >= max_bytes_ / kLeastBytesPerToken) return;
  TokenRun run = make_run(text);
  if (run.size_bytes() > max_bytes_) return;
  {
    const std::lock_guard lock(waiting_mutex_);
    waiting_.push_back(std::move(run));
  }
  const std::unique_lock writing(writing_, std::try_to_lock);
  if (!writing.owns_lock()) return;
  std::vector<TokenRun> runs;
  {
    const std::lock_guard lock(waiting_mutex_);
    runs.swap(waiting_);
  }
  for (TokenRun& waiting : runs) append(std::move(waiting));
}

bool TokenArchive::merge_on() {
  const std::lock_guard writing(writing_);
  rebuild(kStepsOfMergeOn);
  start_rebuilds();
  free_array();
  return !rebuilds_.empty() || !replaced_.empty();
}

void TokenArchive::guess(std::span<const std::int32_t> text, std::int64_t most,
                         std::vector<Guess>& guesses) const {
  find_guesses(text, most, guesses, nullptr);
}

void TokenArchive::guess(std::span<const std::int32_t> text, std::int64_t most,
                         std::vector<Guess>& guesses, std::vector<Guess>& frequent) const {
  frequent.clear();
  find_guesses(text, most, guesses, &frequent);
}

void TokenArchive::find_guesses(std::span<const std::int32_t> text, std::int64_t most,
                                std::vector<Guess>& guesses, std::vector<Guess>* frequent) const {
  guesses.clear();
  const std::shared_lock lock(mutex_);
  Matches(runs_, text).guess(most, guesses, frequent);
}

std::int64_t TokenArchive::num_tokens() const {
  const std::shared_lock lock(mutex_);
  std::int64_t count = 0;
  for (const TokenRun& run : runs_) count += std::ssize(run.order);
  return count;
}

std::int64_t TokenArchive::size_bytes() const {
  const std::shared_lock lock(mutex_);
  return bytes_of_runs();
}

}  // namespace caption::drafts
