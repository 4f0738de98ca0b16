#include "drafts/token_archive.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <mutex>
#include <utility>

#include "drafts/internal/token_run.h"

namespace caption::drafts {
namespace {

// A run at least 1/4 as long as the one before it is merged with that.
constexpr std::size_t kMergeRatio = 4;
constexpr std::int64_t kBytesPerToken = sizeof(std::int32_t) + sizeof(std::uint32_t);
constexpr std::size_t kMaxLookedAt = 48;
constexpr std::size_t kMaxRuns = 32;  // a run is more than 4/1 as long as the next one

// The places of the texts that are looked at, each before its next token.
class Places {
 public:
  // Takes the positions of a run, which are the next ones of `num_all`, or as many of them as lie
  // at one of kMaxLookedAt evenly spaced indices.
  void add(const TokenRun& run, std::span<const std::uint32_t> positions, std::size_t num_all) {
    const std::size_t num_looked_at = std::min(num_all, kMaxLookedAt);
    const std::size_t end = num_passed_ + positions.size();
    while (count_ < num_looked_at && count_ * num_all / num_looked_at < end) {
      const std::uint32_t position = positions[count_ * num_all / num_looked_at - num_passed_];
      next_[count_++] = {run.tokens.data() + position, run.tokens.data() + run.tokens.size()};
    }
    num_passed_ = end;
  }
  std::int32_t count() const { return static_cast<std::int32_t>(count_); }

  // The most frequent next token, of equally frequent ones the smallest, and its count; 0 when all
  // texts have ended.
  std::pair<std::int32_t, std::int32_t> most_frequent() const {
    std::array<std::int32_t, kMaxLookedAt> tokens{};
    std::size_t num_tokens = 0;
    for (std::size_t i = 0; i < count_; ++i) {
      if (!has_ended(next_[i])) tokens[num_tokens++] = *next_[i].token;
    }
    std::sort(tokens.begin(), tokens.begin() + num_tokens);
    std::pair<std::int32_t, std::int32_t> best{0, 0};
    for (std::size_t begin = 0, end = 0; begin < num_tokens; begin = end) {
      while (end < num_tokens && tokens[end] == tokens[begin]) ++end;
      const auto count = static_cast<std::int32_t>(end - begin);
      if (count > best.second) best = {tokens[begin], count};
    }
    return best;
  }

  // Goes on to the places after `token`, in the texts in which it comes next.
  void go_on(std::int32_t token) {
    std::size_t num_kept = 0;
    for (std::size_t i = 0; i < count_; ++i) {
      if (has_ended(next_[i]) || *next_[i].token != token) continue;
      next_[num_kept++] = {next_[i].token + 1, next_[i].end};
    }
    count_ = num_kept;
  }

 private:
  struct Place {
    const std::int32_t* token = nullptr;
    const std::int32_t* end = nullptr;  // of the run
  };
  static bool has_ended(const Place& place) {
    return place.token == place.end || *place.token == kBegin;
  }

  std::array<Place, kMaxLookedAt> next_{};
  std::size_t count_ = 0;
  std::size_t num_passed_ = 0;  // positions of the runs added so far
};

// The places of a text's contexts in all runs.
class Matches {
 public:
  Matches(const std::vector<TokenRun>& runs, std::span<const std::int32_t> text)
      : runs_(runs), context_(text) {
    for (std::size_t i = 0; i < runs.size(); ++i) lengths_[i] = longest_match(runs[i], context_);
  }
  // Of the contexts that are known; 0: none is.
  std::int64_t longest() const { return *std::max_element(lengths_.begin(), lengths_.end()); }

  // Finds the places of the context of `length` tokens, and returns how many there are.
  std::size_t find(std::int64_t length) {
    num_positions_ = 0;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      positions_[i] = {};
      if (lengths_[i] >= length) positions_[i] = positions_after(runs_[i], context_, length);
      num_positions_ += positions_[i].size();
    }
    return num_positions_;
  }
  // Appends guesses from the places that find(length) has found.
  void continue_texts(std::int64_t length, std::int64_t most, std::vector<Guess>& guesses) const {
    Places places;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      places.add(runs_[i], positions_[i], num_positions_);
    }
    while (std::ssize(guesses) < most) {
      const auto [token, count] = places.most_frequent();
      if (count == 0) return;
      guesses.push_back({.token = token,
                         .match_length = static_cast<std::int32_t>(length + std::ssize(guesses)),
                         .count = count,
                         .total = places.count()});
      places.go_on(token);
    }
  }

 private:
  const std::vector<TokenRun>& runs_;
  const Context context_;
  std::array<std::int64_t, kMaxRuns + 1> lengths_{};
  std::array<std::span<const std::uint32_t>, kMaxRuns + 1> positions_{};
  std::size_t num_positions_ = 0;
};

}  // namespace

TokenArchive::TokenArchive(std::int64_t max_bytes) : max_tokens_(max_bytes / kBytesPerToken) {}
TokenArchive::~TokenArchive() = default;

// Forgets old texts until `num_new` more tokens can be held.
void TokenArchive::make_room(std::int64_t num_new) {
  while (!runs_.empty() && num_tokens_ + num_new > max_tokens_) {
    TokenRun rest = newest_half(runs_.front());
    const std::unique_lock lock(mutex_);
    num_tokens_ -= std::ssize(runs_.front().tokens);
    num_tokens_ += std::ssize(rest.tokens);
    if (rest.tokens.empty()) {
      runs_.erase(runs_.begin());
    } else {
      runs_.front() = std::move(rest);
    }
  }
}

// Merges the run with those that it replaces, while others read them.
void TokenArchive::append(TokenRun run) {
  const std::int64_t num_new = std::ssize(run.tokens);
  make_room(num_new);
  std::size_t num_kept = runs_.size();
  while (num_kept > 0 && (run.tokens.size() * kMergeRatio >= runs_[num_kept - 1].tokens.size() ||
                          num_kept >= kMaxRuns)) {
    run = merge_runs(runs_[--num_kept], std::move(run));
  }
  std::vector<TokenRun> replaced;
  {
    const std::unique_lock lock(mutex_);
    const auto first = runs_.begin() + static_cast<std::ptrdiff_t>(num_kept);
    replaced.assign(std::move_iterator(first), std::move_iterator(runs_.end()));
    runs_.erase(first, runs_.end());
    runs_.push_back(std::move(run));
    num_tokens_ += num_new;
  }
}

void TokenArchive::add(std::span<const std::int32_t> text) {
  if (text.empty() || std::ssize(text) >= max_tokens_) return;
  TokenRun run = make_run(text);
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
  Matches matches(runs_, text);
  const std::int64_t longest = matches.longest();
  if (longest == 0) return;
  std::size_t num_places = matches.find(longest);
  matches.continue_texts(longest, most, guesses);
  if (frequent == nullptr || num_places >= kFrequent) return;
  std::int64_t length = 0;  // of a context with enough places; 0: none was found
  for (std::int64_t too_long = longest; too_long - length > 1;) {
    const std::int64_t middle = length + (too_long - length) / 2;
    num_places = matches.find(middle);
    (num_places < kFrequent ? too_long : length) = middle;
  }
  if (length == 0) return;
  matches.find(length);
  matches.continue_texts(length, most, *frequent);
}

std::int64_t TokenArchive::num_tokens() const {
  const std::shared_lock lock(mutex_);
  std::int64_t count = 0;
  for (const TokenRun& run : runs_) count += std::ssize(run.order);
  return count;
}

std::int64_t TokenArchive::size_bytes() const {
  const std::shared_lock lock(mutex_);
  std::size_t count = 0;
  for (const TokenRun& run : runs_) {
    count += run.tokens.capacity() * sizeof(std::int32_t);
    count += run.order.capacity() * sizeof(std::uint32_t);
  }
  return static_cast<std::int64_t>(count);
}

}  // namespace caption::drafts
