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
constexpr std::int64_t kLeastBytesPerToken = sizeof(std::int32_t) + sizeof(std::uint32_t);
constexpr std::size_t kMaxLookedAt = 48;
constexpr std::size_t kMaxRuns = 16;  // more than any archive has, as 4^16 tokens exceed 32 bits

// The places of the texts that are looked at, each before its next token.
class Continuations {
 public:
  // Takes the positions of a run, which are the next ones of `num_all`, or as many of them as lie
  // at one of kMaxLookedAt evenly spaced indices.
  void add(const TokenRun& run, std::span<const std::uint32_t> positions, std::size_t num_all) {
    const std::size_t num_looked_at = std::min(num_all, kMaxLookedAt);
    const std::size_t end = num_passed_ + positions.size();
    while (count_ < num_looked_at) {
      const std::size_t index = num_all <= kMaxLookedAt ? count_ : count_ * num_all / kMaxLookedAt;
      if (index >= end) break;
      next_[count_++] = run.tokens.data() + positions[index - num_passed_];
    }
    num_passed_ = end;
  }
  std::int32_t count() const { return static_cast<std::int32_t>(count_); }
  const std::int32_t* first() const { return next_[0]; }  // needs count() > 0

  // The most frequent next token, of equally frequent ones the smallest, and its count; 0 when all
  // texts have ended. Each round counts the first of the tokens that are left, and takes it away.
  std::pair<std::int32_t, std::int32_t> most_frequent() const {
    std::array<std::int32_t, kMaxLookedAt> tokens;
    std::size_t num_tokens = 0;
    for (std::size_t i = 0; i < count_; ++i) {
      tokens[num_tokens] = *next_[i];
      num_tokens += *next_[i] == kBegin ? 0 : 1;
    }
    std::pair<std::int32_t, std::int32_t> best{0, 0};
    while (num_tokens > 0 && num_tokens >= static_cast<std::size_t>(best.second)) {
      const std::int32_t token = tokens[0];
      std::size_t num_others = 0;
      for (std::size_t i = 1; i < num_tokens; ++i) {
        const std::int32_t other = tokens[i];
        tokens[num_others] = other;
        num_others += other != token ? 1 : 0;
      }
      const auto count = static_cast<std::int32_t>(num_tokens - num_others);
      if (count > best.second || (count == best.second && token < best.first)) {
        best = {token, count};
      }
      num_tokens = num_others;
    }
    return best;
  }

  // Goes on to the places after `token`, in the texts in which it comes next.
  void go_on(std::int32_t token) {
    std::size_t num_kept = 0;
    for (std::size_t i = 0; i < count_; ++i) {
      const std::int32_t* const next = next_[i];
      next_[num_kept] = next + 1;
      num_kept += *next == token ? 1 : 0;
    }
    count_ = num_kept;
  }

 private:
  std::array<const std::int32_t*, kMaxLookedAt> next_;  // count_ of them
  std::size_t count_ = 0;
  std::size_t num_passed_ = 0;  // positions of the runs added so far
};

// The places of a text's context in all runs.
class Matches {
 public:
  Matches(const std::vector<TokenRun>& runs, std::span<const std::int32_t> text)
      : runs_(runs), context_(text) {
    for (std::size_t i = 0; i < runs.size(); ++i) places_[i].begin(runs[i], context_);
    for (std::size_t i = 0; i < runs.size(); ++i) places_[i].look_up();
    for (std::size_t i = 0; i < runs.size(); ++i) places_[i].narrow();
    for (std::size_t i = 0; i < runs.size(); ++i) {
      places_[i].finish();
      longest_ = std::max(longest_, places_[i].longest());
    }
    if (longest_ < 2) longest_ = find(1) > 0 ? 1 : 0;
  }
  // Of the contexts that are known; 0: none is.
  std::int64_t longest() const { return longest_; }

  // Finds the positions of the context of `length` tokens, and returns how many there are.
  std::size_t find(std::int64_t length) {
    num_positions_ = 0;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      places_[i].find(length);
      num_positions_ += places_[i].found().size();
    }
    return num_positions_;
  }
  // The length of the longest context that at least kFrequent positions have; 0: none has. The
  // contexts of as many positions on each side of a run's place have the longest ones of it.
  std::int64_t longest_frequent() {
    std::array<std::size_t, kMaxContext + 1> counts{};  // positions seen, by their length
    std::int64_t enough = 1;  // length that at least kFrequent positions seen have, if above 1
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      if (places_[i].longest() <= enough) continue;
      const auto count = [&](auto&& length_of) {
        for (std::size_t n = 0; n < TokenArchive::kFrequent; ++n) {
          const std::int64_t length = length_of(n);
          if (length <= enough) return;
          ++counts[static_cast<std::size_t>(length)];
        }
      };
      count([&](std::size_t n) { return places_[i].length_before(n); });
      count([&](std::size_t n) { return places_[i].length_after(n); });
      std::size_t num_seen = 0;
      for (std::int64_t length = longest_; length > enough; --length) {
        num_seen += counts[static_cast<std::size_t>(length)];
        if (num_seen >= TokenArchive::kFrequent) enough = length;
      }
    }
    if (enough > 1) return enough;
    return find(1) >= TokenArchive::kFrequent ? 1 : 0;
  }
  // Appends guesses from the positions that find(length) has found.
  void continue_texts(std::int64_t length, std::int64_t most, std::vector<Guess>& guesses) const {
    Continuations continuations;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      continuations.add(runs_[i], places_[i].found(), num_positions_);
    }
    const auto end = static_cast<std::int32_t>(length + most);
    auto match_length = static_cast<std::int32_t>(length);
    for (; match_length < end && continuations.count() > 1; ++match_length) {
      const auto [token, count] = continuations.most_frequent();
      if (count == 0) return;
      guesses.push_back({token, match_length, count, continuations.count()});
      continuations.go_on(token);
    }
    for (const std::int32_t* next = continuations.first(); match_length < end && *next != kBegin;
         ++next, ++match_length) {
      guesses.push_back({*next, match_length, 1, 1});
    }
  }

 private:
  const std::vector<TokenRun>& runs_;
  const Context context_;
  std::array<ContextPlace, kMaxRuns + 1> places_;
  std::int64_t longest_ = 0;
  std::size_t num_positions_ = 0;
};

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
         (run.length() * kMergeRatio >= runs_[num_kept - 1].length() || num_kept >= kMaxRuns)) {
    run = merge_runs(runs_[--num_kept], std::move(run));
  }
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
  Matches matches(runs_, text);
  const std::int64_t longest = matches.longest();
  if (longest == 0) return;
  const std::size_t num_places = matches.find(longest);
  matches.continue_texts(longest, most, guesses);
  if (frequent == nullptr || num_places >= kFrequent) return;
  const std::int64_t length = matches.longest_frequent();
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
  return bytes_of_runs();
}

}  // namespace caption::drafts
