#include "sampling/beam_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "base/error.h"

namespace caption::sampling {
namespace {

constexpr float kRuledOut = -std::numeric_limits<float>::infinity();

}  // namespace

BeamSearch::BeamSearch(const SamplingParams& params, std::span<const std::int32_t> prompt_ids)
    : params_(params),
      num_prompt_(static_cast<std::int32_t>(prompt_ids.size())),
      num_tokens_(num_prompt_),
      max_tokens_(std::int64_t{num_prompt_} + params.max_new_tokens) {
  CAPTION_CHECK(params.num_beams >= 2, "sampling: a beam search has two beams or more");
  const auto num_beams = static_cast<std::size_t>(params.num_beams);
  run_.resize(num_beams);
  parents_.resize(num_beams);
  tokens_.resize(num_beams);
  candidates_.reserve(num_beams * static_cast<std::size_t>(num_beam_candidates(params)));
  running_ids_.resize(num_beams * static_cast<std::size_t>(max_tokens_));
  for (std::size_t beam = 0; beam < num_beams; ++beam) {
    std::copy(prompt_ids.begin(), prompt_ids.end(),
              running_ids_.begin() + static_cast<std::ptrdiff_t>(beam) * max_tokens_);
  }
  next_ids_ = running_ids_;
  finished_.resize(num_beams);
  for (Finished& finished : finished_) {
    finished.output_ids.reserve(static_cast<std::size_t>(params.max_new_tokens));
  }
}

BeamSearch::Step BeamSearch::advance(std::span<const BeamCandidate> candidates,
                                     std::int64_t row_size) {
  CAPTION_CHECK(!is_finished_, "sampling: the beam search has ended");
  const std::int32_t num_rows = num_output() == 0 ? 1 : params_.num_beams;
  CAPTION_CHECK(
      std::ssize(candidates) == num_rows * row_size && row_size >= num_beam_candidates(params_),
      "sampling: candidates of another number of beams, or too few");
  candidates_.clear();
  for (std::int32_t beam = 0; beam < num_rows; ++beam) {
    collect(beam, candidates.subspan(static_cast<std::size_t>(beam * row_size),
                                     static_cast<std::size_t>(row_size)));
  }
  std::sort(candidates_.begin(), candidates_.end(), is_better);
  if (candidates_.empty() && num_finished_ == 0) {
    throw Error(ErrorCode::kInternal,
                "sampling: every token is ruled out by no_repeat_ngram_size or min_new_tokens");
  }

  const bool is_last = num_output() + 1 == params_.max_new_tokens;
  const auto num_eligible =
      std::min(candidates_.size(), static_cast<std::size_t>(params_.num_beams));
  for (const Candidate& candidate : std::span(candidates_).first(num_eligible)) {
    if (is_last || is_stop(candidate.id)) finish(candidate);
  }
  is_finished_ = is_last || !continue_running() || !may_improve();
  if (is_finished_) return {};
  return {parents_, tokens_};
}

std::span<const std::int32_t> BeamSearch::running(std::int64_t beam) const {
  CAPTION_CHECK(beam >= 0 && beam < params_.num_beams, "sampling: no such beam");
  return std::span(running_ids_)
      .subspan(static_cast<std::size_t>(beam * max_tokens_), static_cast<std::size_t>(num_tokens_));
}

float BeamSearch::score(std::int64_t beam) const {
  CAPTION_CHECK(beam >= 0 && beam < params_.num_beams, "sampling: no such beam");
  return run_[static_cast<std::size_t>(beam)];
}

BeamSearch::Best BeamSearch::best() const {
  CAPTION_CHECK(is_finished_, "sampling: the beam search has not ended");
  const Finished& best = finished_.front();
  return {best.output_ids, static_cast<double>(best.score), best.is_stopped};
}

bool BeamSearch::is_stop(std::int32_t id) const {
  return std::find(params_.stop_ids.begin(), params_.stop_ids.end(), id) != params_.stop_ids.end();
}

// The power is computed in double and the division in float, as in the reference.
float BeamSearch::divisor(std::int32_t num_tokens) const {
  return static_cast<float>(std::pow(static_cast<double>(num_tokens), params_.length_penalty));
}

bool BeamSearch::is_better(const Candidate& a, const Candidate& b) {
  return std::tuple(-a.score, a.beam, a.id) < std::tuple(-b.score, b.beam, b.id);
}

void BeamSearch::collect(std::int32_t beam, std::span<const BeamCandidate> candidates) {
  const auto most = static_cast<std::size_t>(num_beam_candidates(params_));
  for (const BeamCandidate& candidate : candidates.first(most)) {
    if (candidate.id < 0) return;
    candidates_.push_back({candidate.score, beam, candidate.id});
  }
}

// Adds the candidate to the finished beams unless num_beams better or equal ones are there.
void BeamSearch::finish(const Candidate& candidate) {
  const float score = candidate.score / divisor(num_output() + 1);
  if (all_finished()) {
    if (!(score > finished_.back().score)) return;
  } else {
    ++num_finished_;
  }
  auto slot = static_cast<std::size_t>(num_finished_ - 1);
  const auto output = running(candidate.beam).subspan(static_cast<std::size_t>(num_prompt_));
  finished_[slot].score = score;
  finished_[slot].is_stopped = is_stop(candidate.id);
  finished_[slot].output_ids.assign(output.begin(), output.end());
  finished_[slot].output_ids.push_back(candidate.id);
  for (; slot > 0 && finished_[slot].score > finished_[slot - 1].score; --slot) {
    std::swap(finished_[slot], finished_[slot - 1]);
  }
}

// Continues the best candidates that do not end as running beams; returns false when there is none.
bool BeamSearch::continue_running() {
  std::size_t num_running = 0;
  const auto num_beams = static_cast<std::size_t>(params_.num_beams);
  for (const Candidate& candidate : candidates_) {
    if (num_running == num_beams) break;
    if (is_stop(candidate.id)) continue;
    run_[num_running] = candidate.score;
    parents_[num_running] = candidate.beam;
    tokens_[num_running] = candidate.id;
    ++num_running;
  }
  if (num_running == 0) return false;
  for (std::size_t beam = num_running; beam < num_beams; ++beam) {
    run_[beam] = kRuledOut;
    parents_[beam] = parents_[0];
    tokens_[beam] = tokens_[0];
  }
  for (std::size_t beam = 0; beam < num_beams; ++beam) {
    const auto parent = running(parents_[beam]);
    auto* const next = next_ids_.data() + static_cast<std::int64_t>(beam) * max_tokens_;
    std::copy(parent.begin() + num_prompt_, parent.end(), next + num_prompt_);
    next[num_tokens_] = tokens_[beam];
  }
  std::swap(running_ids_, next_ids_);
  ++num_tokens_;
  return true;
}

// Whether the search continues; called after continue_running().
bool BeamSearch::may_improve() const {
  if (!all_finished()) return true;
  if (params_.early_stopping == EarlyStopping::kYes) return false;
  const bool favours_long =
      params_.early_stopping == EarlyStopping::kNever && params_.length_penalty > 0;
  const float best_possible =
      run_[0] / divisor(favours_long ? params_.max_new_tokens : num_output());
  return best_possible > finished_.back().score;
}

}  // namespace caption::sampling
