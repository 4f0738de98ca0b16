#include "engine/internal/sampled_rows.h"

#include <array>
#include <bit>

namespace caption::engine {
namespace {

using kernels::RowSampling;
// A RowSampling as elements of the step's block of i32.
using RowElements = std::array<std::int32_t, sizeof(RowSampling) / sizeof(std::int32_t)>;

bool counts_history(const sampling::SamplingParams& params) {
  return static_cast<float>(params.repetition_penalty) != 1 || params.no_repeat_ngram_size > 0;
}

// The tokens before the next one that the penalties count.
std::span<const std::int32_t> counted_ids(const Sequence& sequence) {
  if (!counts_history(sequence.sampling)) return {};
  return sequence.sampling.counts_prompt ? std::span<const std::int32_t>(sequence.tokens)
                                         : sequence.output();
}

}  // namespace

SampledRows::SampledRows(const Stream& stream, std::int64_t vocab)
    : is_used_(kernels::spares_copies_of_logits(stream, vocab)) {}

bool SampledRows::includes(const Sequence& sequence) const {
  const bool needs_logits = sequence.sampling.num_logprobs >= 0 || sequence.process_logits;
  return is_used_ && !needs_logits && !sequence.has_beams();
}

std::int64_t SampledRows::most_row_elements(std::int64_t num_rows) const {
  return is_used_ ? num_rows * static_cast<std::int64_t>(RowElements().size()) : 0;
}

std::int64_t SampledRows::most_ids(const Sequence& sequence, std::int64_t max_drafts) const {
  if (!includes(sequence)) return 0;
  const sampling::SamplingParams& params = sequence.sampling;
  const std::int64_t history = counts_history(params) ? std::ssize(counted_ids(sequence)) +
                                                            params.max_new_tokens + max_drafts
                                                      : 0;
  return history + (params.min_new_tokens > 0 ? std::ssize(params.stop_ids) : 0);
}

void SampledRows::reserve(std::int64_t num_rows, std::int64_t num_ids) {
  rows_.reserve(static_cast<std::size_t>(most_row_elements(num_rows)));
  ids_.reserve(static_cast<std::size_t>(num_ids));
  host_rows_.reserve(static_cast<std::size_t>(num_rows));
}

void SampledRows::clear() {
  num_rows_ = 0;
  are_any_chosen_ = false;
  rows_.clear();
  ids_.clear();
  host_rows_.clear();
}

void SampledRows::add(const Sequence& sequence, std::int64_t num_rows) {
  if (num_rows == 0) return;
  if (sequence.has_beams()) return add_unused(num_rows);
  if (!includes(sequence)) return add_for_host(num_rows);
  add_chosen(sequence, sequence.drafts, {.first = 0, .count = num_rows});
}

void SampledRows::add_guess(const Sequence& sequence, std::span<const std::int32_t> guesses) {
  if (!includes(sequence)) return add_for_host(1);
  add_chosen(sequence, guesses, {.first = std::ssize(guesses), .count = 1});
}

void SampledRows::add_for_host(std::int64_t num_rows) {
  const std::int64_t first = num_rows_;
  num_rows_ += num_rows;
  append_unused(num_rows);
  const bool continues =
      !host_rows_.empty() && host_rows_.back().first + host_rows_.back().count == first;
  if (continues) {
    host_rows_.back().count += num_rows;
  } else {
    host_rows_.push_back({first, num_rows});
  }
}

void SampledRows::add_chosen(const Sequence& sequence, std::span<const std::int32_t> guesses,
                             Range rows) {
  are_any_chosen_ = true;
  num_rows_ += rows.count;
  const std::int64_t end = rows.first + rows.count;
  const sampling::SamplingParams& params = sequence.sampling;
  const std::span<const std::int32_t> history = counted_ids(sequence);
  const auto num_output = std::ssize(sequence.output());
  RowSampling row{.seed = params.seed,
                  .top_p = params.top_p,
                  .temperature = static_cast<float>(params.temperature),
                  .repetition_penalty = static_cast<float>(params.repetition_penalty),
                  .top_k = params.top_k,
                  .no_repeat_ngram_size = params.no_repeat_ngram_size,
                  .first_id = static_cast<std::int32_t>(ids_.size())};
  ids_.insert(ids_.end(), history.begin(), history.end());
  if (counts_history(params)) {  // a row counts the drafts before it
    ids_.insert(ids_.end(), guesses.begin(), guesses.begin() + (end - 1));
  }
  row.first_banned = static_cast<std::int32_t>(ids_.size());
  if (num_output + rows.first < params.min_new_tokens) {
    ids_.insert(ids_.end(), params.stop_ids.begin(), params.stop_ids.end());
  }
  for (std::int64_t drafts = rows.first; drafts < end; ++drafts) {
    row.draw = static_cast<std::uint64_t>(num_output + drafts);
    if (counts_history(params)) {
      row.num_ids = static_cast<std::int32_t>(std::ssize(history) + drafts);
    }
    const bool may_stop = num_output + drafts >= params.min_new_tokens;
    row.num_banned = may_stop ? 0 : static_cast<std::int32_t>(params.stop_ids.size());
    append(row);
  }
}

void SampledRows::add_unused(std::int64_t num_rows) {
  num_rows_ += num_rows;
  append_unused(num_rows);
}

void SampledRows::append_unused(std::int64_t num_rows) {
  for (std::int64_t row = 0; is_used_ && row < num_rows; ++row) append(RowSampling());
}

void SampledRows::append(const RowSampling& row) {
  const auto elements = std::bit_cast<RowElements>(row);
  rows_.insert(rows_.end(), elements.begin(), elements.end());
}

}  // namespace caption::engine
