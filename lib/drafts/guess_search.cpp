#include "drafts/internal/guess_search.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "drafts/internal/copied_text.h"
#include "drafts/repeated_tokens.h"

namespace caption::drafts {
namespace {

// A sequence guesses from at most so many of the nearest texts.
constexpr std::size_t kMostNearest = 8;

}  // namespace

GuessSearch::GuessSearch(const DrafterOptions& options, std::shared_ptr<TokenArchive> archive,
                         std::shared_ptr<NearestTexts> nearest, const Acceptance& acceptance)
    : options_(options),
      archive_(std::move(archive)),
      nearest_(std::move(nearest)),
      acceptance_(acceptance) {}

void GuessSearch::begin(std::uint64_t topic, const Sketch& look, Proposal& proposal) const {
  if (nearest_ == nullptr) return;
  proposal.topic = topic;
  proposal.look = look;
}

void GuessSearch::find_nearest(Proposal& proposal) const {
  if (!proposal.look.has_value() || proposal.nearest.has_value()) return;
  proposal.nearest.emplace();
  proposal.found = nearest_->find(proposal.topic, *proposal.look, kMostNearest);
  for (const NearestTexts::Found& found : proposal.found) proposal.nearest->add(*found.text);
}

void GuessSearch::consider(GuessSource source, Proposal& proposal) {
  if (guesses_.empty()) return;
  if (!proposal.guesses.empty() &&
      acceptance_.probability(source, guesses_.front()) <=
          acceptance_.probability(proposal.source, proposal.guesses.front())) {
    return;
  }
  std::swap(proposal.guesses, guesses_);
  proposal.source = source;
}

void GuessSearch::guess_from_archive(std::span<const std::int32_t> output, std::int64_t most,
                                     Proposal& proposal) {
  const std::span<const Guess> left = proposal.of_archive.after(output);
  if (std::ssize(left) > proposal.num_computed) {
    guesses_.assign(left.begin(), left.begin() + std::min(std::ssize(left), most));
    return;
  }
  archive_->guess(output, most, guesses_, frequent_guesses_);
  const auto expected = [&](const std::vector<Guess>& guesses) {
    return expected_right(acceptance_, GuessSource::kArchive, guesses, proposal);
  };
  if (!frequent_guesses_.empty() && expected(frequent_guesses_) > expected(guesses_)) {
    std::swap(guesses_, frequent_guesses_);
  }
  proposal.of_archive.set(output.size(), guesses_);
}

void GuessSearch::find(const DraftQuery& query, Proposal& proposal) {
  const std::int64_t most = std::min<std::int64_t>(query.most, options_.max_drafts);
  proposal.guesses.clear();
  proposal.source = GuessSource::kArchive;
  if (options_.method == Method::kModel || options_.method == Method::kSelf) return;
  const std::span<const std::int32_t> output = output_of(query);
  if (options_.method == Method::kArchive) {
    find_nearest(proposal);
    if (proposal.nearest.has_value()) {
      proposal.nearest->guess(output, most, guesses_);
      consider(GuessSource::kNearest, proposal);
    }
    if (archive_ != nullptr) {
      guess_from_archive(output, most, proposal);
      consider(GuessSource::kArchive, proposal);
    }
  }
  guess_repetition(query.tokens, most, guesses_);
  consider(GuessSource::kRepetition, proposal);
}

void GuessSearch::find_copy(const DraftQuery& query, Proposal& proposal) {
  guess_copy(output_of(query), query.most, proposal.found, guesses_);
  if (guesses_.empty()) return;
  if (options_.is_adaptive &&
      expected_right(acceptance_, GuessSource::kCopy, guesses_, proposal) <
          expected_right(acceptance_, proposal.source, proposal.guesses, proposal)) {
    return;
  }
  std::swap(proposal.guesses, guesses_);
  proposal.source = GuessSource::kCopy;
}

void GuessSearch::end(const Proposal* proposal, std::span<const std::int32_t> output) {
  if (proposal != nullptr && proposal->look.has_value()) {
    nearest_->add(proposal->topic, *proposal->look, output);
  }
  if (options_.method == Method::kArchive && archive_ != nullptr) archive_->add(output);
}

}  // namespace caption::drafts
