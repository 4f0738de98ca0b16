// The part of Drafter that copies the text of the nearest thing after a prompt.
#include <algorithm>
#include <array>
#include <iterator>

#include "drafts/drafter.h"

namespace caption::drafts {
namespace {

constexpr std::int64_t kMostLogitBytes = 64LL << 20;

// Guess::match_length of a copy: one for each class of Acceptance, the longer, the more alike two
// things look. A class is as wide as a factor of 4 in the square of the distance.
std::int32_t match_length_of(float squared_distance) {
  constexpr std::array<std::int32_t, 7> kLengths = {20, 12, 8, 5, 3, 2, 1};
  constexpr float kFactor = 4;
  float bound = 0x1.0p-12F;
  std::size_t index = 0;
  for (; index + 1 < kLengths.size() && squared_distance >= bound; ++index) bound *= kFactor;
  return kLengths[index];
}

bool begins_with(std::span<const std::int32_t> text, std::span<const std::int32_t> beginning) {
  return text.size() >= beginning.size() &&
         std::equal(beginning.begin(), beginning.end(), text.begin());
}

}  // namespace

std::int64_t most_copied_tokens(Method method, std::int64_t max_new_tokens, std::int64_t vocab) {
  if (method != Method::kArchive) return 0;
  const std::int64_t row_bytes = vocab * static_cast<std::int64_t>(sizeof(float));
  return std::clamp<std::int64_t>(max_new_tokens - 1, 0, kMostLogitBytes / row_bytes);
}

// The evidence of a token is how many of the nearest texts that have the tokens before it have it,
// too.
void Drafter::guess_copy(std::span<const std::int32_t> output, std::int64_t most,
                         const Proposal& proposal) {
  other_guesses_.clear();
  if (proposal.found.empty()) return;
  const std::vector<std::int32_t>& copied = *proposal.found.front().text;
  if (!begins_with(copied, output)) return;
  const std::int32_t match_length = match_length_of(proposal.found.front().squared_distance);
  const std::size_t end = std::min(copied.size(), output.size() + static_cast<std::size_t>(most));
  std::vector<const std::vector<std::int32_t>*> equal;  // texts with the tokens so far
  for (const NearestTexts::Found& found : proposal.found) {
    if (begins_with(*found.text, output)) equal.push_back(found.text.get());
  }
  for (std::size_t i = output.size(); i < end; ++i) {
    const auto num_before = static_cast<std::int32_t>(equal.size());
    std::erase_if(equal,
                  [&](const auto* text) { return i >= text->size() || (*text)[i] != copied[i]; });
    other_guesses_.push_back({.token = copied[i],
                              .match_length = match_length,
                              .count = static_cast<std::int32_t>(equal.size()),
                              .total = num_before});
  }
}

double Drafter::expected_right(GuessSource source, std::span<const Guess> guesses,
                               const Proposal& proposal) const {
  double all_right = 1;
  double expected = 0;
  for (const Guess& guess : guesses) {
    all_right *= probability(source, proposal, guess);
    expected += all_right;
  }
  return expected;
}

void Drafter::propose_after_prompts(std::span<const DraftQuery> queries, std::int64_t num_decoding,
                                    std::int64_t num_prompt_tokens) {
  if (options_.method != Method::kArchive) return;
  const std::int64_t num_sequences = num_decoding + std::ssize(queries);
  const double us_per_token = options_.is_adaptive ? worth_us(num_sequences) : 0;
  if (options_.is_adaptive && (balance_of(num_sequences).is_paused() || us_per_token == 0)) return;
  const std::int64_t size = num_decoding + num_prompt_tokens + step_.num_offered;
  step_.is_searched = true;
  candidates_.clear();
  for (std::size_t i = 0; i < queries.size(); ++i) {
    const DraftQuery& query = queries[i];
    Proposal& proposal = proposals_[query.sequence];
    find_guesses(query, proposal);
    guess_copy(output_of(query), query.most, proposal);
    const bool copies =
        !other_guesses_.empty() &&
        (!options_.is_adaptive || expected_right(GuessSource::kCopy, other_guesses_, proposal) >=
                                      expected_right(proposal.source, proposal.guesses, proposal));
    if (copies) {
      std::swap(proposal.guesses, other_guesses_);
      proposal.source = GuessSource::kCopy;
    }
    add_candidates(i, proposal);
  }
  std::size_t num_taken = candidates_.size();
  if (options_.is_adaptive) {
    sort_candidates();
    num_taken = best_count(size, us_per_token, costs_of(StepKind::kWithPrompts));
  }
  offer(queries, num_taken);
}

}  // namespace caption::drafts
