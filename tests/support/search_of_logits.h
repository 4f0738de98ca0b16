// tests/support/search_of_logits.h: a beam search that takes logits, from which it finds the
// candidates of each beam.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "sampling/beam_candidates.h"
#include "sampling/beam_search.h"

namespace caption::testing {

class SearchOfLogits : public sampling::BeamSearch {
 public:
  SearchOfLogits(const sampling::SamplingParams& params, std::span<const std::int32_t> prompt_ids)
      : BeamSearch(params, prompt_ids),
        params_(params),
        num_prompt_(std::ssize(prompt_ids)),
        row_size_(static_cast<std::size_t>(sampling::num_beam_candidates(params))),
        candidates_(row_size_ * static_cast<std::size_t>(params.num_beams)) {}

  // `logits` [rows, scorer.vocab()]; otherwise as BeamSearch::advance() and BeamScorer::find().
  Step advance(sampling::BeamScorer& scorer, std::span<const float> logits) {
    const auto vocab = static_cast<std::size_t>(scorer.vocab());
    const std::size_t num_rows = logits.size() / vocab;
    CAPTION_CHECK(num_rows * row_size_ <= candidates_.size(), "search of logits: too many rows");
    const std::span<sampling::BeamCandidate> all(candidates_.data(), num_rows * row_size_);
    for (std::size_t row = 0; row < num_rows; ++row) {
      const auto beam = static_cast<std::int64_t>(row);
      const std::span<sampling::BeamCandidate> best = all.subspan(row * row_size_, row_size_);
      const sampling::History history{.ids = running(beam), .num_prompt = num_prompt_};
      const std::int64_t count = scorer.find(sampling::running_beam(params_, history, score(beam)),
                                             logits.subspan(row * vocab, vocab), best);
      if (count < std::ssize(best)) best[static_cast<std::size_t>(count)].id = -1;
    }
    return BeamSearch::advance(all, static_cast<std::int64_t>(row_size_));
  }

 private:
  sampling::SamplingParams params_;
  std::int64_t num_prompt_;
  std::size_t row_size_;
  std::vector<sampling::BeamCandidate> candidates_;  // [num_beams, row_size]
};

}  // namespace caption::testing
