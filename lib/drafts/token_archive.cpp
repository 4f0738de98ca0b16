#include "drafts/token_archive.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <utility>

#include "drafts/internal/matches.h"
#include "drafts/internal/token_run.h"

namespace caption::drafts {
namespace {

// A run at least 1/4 as long as the one before it is merged with that.
constexpr std::size_t kMergeRatio = 8;
constexpr std::int64_t kLeastBytesPerToken = sizeof(std::int32_t) + sizeof(OrderEntry) + 1;

}  // namespace

TokenArchive::TokenArchive(std::int64_t max_bytes) : max_bytes_(max_bytes) {}
TokenArchive::~TokenArchive() = default;

std::int64_t TokenArchive::bytes_of_runs() const {
  std::int64_t bytes = 0;
  for (const TokenRun& run : runs_) bytes += run.size_bytes();
  return bytes;
}

// Forgets old texts until `num_new` more bytes can be held.
void TokenArchive::make_room(std::int64_t num_new) {
  while (!runs_.empty() && bytes_of_runs() + num_new > max_bytes_) {
    TokenRun rest = newest_half(runs_.front());
    const std::unique_lock lock(mutex_);
    if (rest.tokens.empty()) {
      runs_.erase(runs_.begin());
    } else {
      runs_.front() = std::move(rest);
    }
  }
}

// Merges the run with those that it replaces, while others read them. A merged run may have
// contexts in its index that the runs it was made of have in too few places.
void TokenArchive::append(TokenRun run) {
  make_room(run.size_bytes());
  std::size_t num_kept = runs_.size();
  while (num_kept > 0 &&
         (run.length() * kMergeRatio >= runs_[num_kept - 1].length() || num_kept >= kMostRuns)) {
    run = merge_runs(runs_[--num_kept], run);
  }
  if (num_kept < runs_.size()) run.add_index();
  std::vector<TokenRun> replaced;
  {
    const std::unique_lock lock(mutex_);
    const auto first = runs_.begin() + static_cast<std::ptrdiff_t>(num_kept);
    replaced.assign(std::move_iterator(first), std::move_iterator(runs_.end()));
    runs_.erase(first, runs_.end());
    runs_.push_back(std::move(run));
  }
  make_room(0);
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
