#include "engine/internal/batch_builder.h"

#include <algorithm>

namespace caption::engine {

BatchBuilder::BatchBuilder(std::int64_t max_tokens, std::int64_t max_sequences,
                           std::int64_t max_pages) {
  for (std::vector<std::int32_t>* array : {&tokens_, &positions_, &slots_, &vision_rows_}) {
    array->reserve(static_cast<std::size_t>(max_tokens));
  }
  for (std::vector<std::int32_t>* array : {&cu_seqlens_, &context_lens_, &logit_rows_}) {
    array->reserve(static_cast<std::size_t>(max_sequences + 1));
  }
  block_tables_.reserve(static_cast<std::size_t>(max_sequences * max_pages));
  batch_.vision.reserve(static_cast<std::size_t>(max_sequences));
  watched_.reserve(static_cast<std::size_t>(max_sequences));
  clusters_.reserve(static_cast<std::size_t>(max_sequences));
}

void BatchBuilder::begin(std::int64_t max_pages) {
  for (std::vector<std::int32_t>* array : {&tokens_, &positions_, &cu_seqlens_, &context_lens_,
                                           &block_tables_, &slots_, &vision_rows_, &logit_rows_}) {
    array->clear();
  }
  cu_seqlens_.push_back(0);
  batch_.vision.clear();
  watched_.clear();
  clusters_.clear();
  batch_.max_pages = max_pages;
}

void BatchBuilder::add(const scheduler::PlannedSequence& planned, Sequence& sequence,
                       const kv::PageTable& pages) {
  const std::int64_t begin = planned.first_token;
  const std::int64_t end = begin + planned.num_tokens;
  add_vision(begin, end, sequence);
  add_compression(planned, sequence);
  const std::span<const std::int32_t> ids = sequence.ids_of(planned.branch);
  for (std::int64_t position = begin; position < end; ++position) {
    tokens_.push_back(ids[static_cast<std::size_t>(position)]);
    positions_.push_back(static_cast<std::int32_t>(position));
    slots_.push_back(pages.slot(position - planned.num_saved));
  }
  cu_seqlens_.push_back(static_cast<std::int32_t>(tokens_.size()));
  context_lens_.push_back(static_cast<std::int32_t>(end - planned.num_saved));
  for (const kv::PageId page : pages.pages()) {
    block_tables_.push_back(static_cast<std::int32_t>(page));
  }
  block_tables_.resize(context_lens_.size() * static_cast<std::size_t>(batch_.max_pages), -1);
  if (planned.is_last_known) logit_rows_.push_back(static_cast<std::int32_t>(tokens_.size()) - 1);
}

void BatchBuilder::add_compression(const scheduler::PlannedSequence& planned, Sequence& sequence) {
  clusters_.push_back(nullptr);
  if (!sequence.compressed.has_value()) return;
  if (planned.first_token >= sequence.num_prompt) {
    clusters_.back() = sequence.compressed->clusters();
    return;
  }
  const std::optional<model::WatchedRows> rows = sequence.compressed->watch(
      planned.first_token, planned.num_tokens, static_cast<std::int32_t>(context_lens_.size()),
      static_cast<std::int32_t>(tokens_.size()));
  if (rows.has_value()) watched_.push_back(*rows);
}

// The vision tokens among positions [begin, end) are consecutive rows of the request's tensor.
void BatchBuilder::add_vision(std::int64_t begin, std::int64_t end, const Sequence& sequence) {
  const auto& positions = sequence.vision_positions;
  const auto first = std::lower_bound(positions.begin(), positions.end(), begin);
  const auto last = std::lower_bound(first, positions.end(), end);
  if (first == last) return;
  const auto first_row = static_cast<std::int64_t>(tokens_.size());
  for (auto position = first; position != last; ++position) {
    vision_rows_.push_back(static_cast<std::int32_t>(first_row + *position - begin));
  }
  batch_.vision.push_back(sequence.vision->view().rows(first - positions.begin(), last - first));
}

const model::StepBatch& BatchBuilder::finish() {
  batch_.tokens = tokens_;
  batch_.positions = positions_;
  batch_.cu_seqlens = cu_seqlens_;
  batch_.context_lens = context_lens_;
  batch_.block_tables = block_tables_;
  batch_.slots = slots_;
  batch_.vision_rows = vision_rows_;
  batch_.logit_rows = logit_rows_;
  batch_.watched = watched_;
  const bool has_clusters = std::any_of(clusters_.begin(), clusters_.end(),
                                        [](const auto* clusters) { return clusters != nullptr; });
  batch_.clusters = {};
  if (has_clusters) batch_.clusters = clusters_;
  return batch_;
}

}  // namespace caption::engine
