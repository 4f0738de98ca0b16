#include "engine/internal/batch_builder.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/math.h"
#include "kernels/beam_candidates.h"

namespace caption::engine {
namespace {

// An array begins at a multiple of so many elements: 64 bytes, a cache line.
constexpr std::int64_t kArrayElements = 16;
constexpr std::int64_t kNumArrays = 12;

// Adds rows at the end; consecutive rows of one adapter become one entry.
void append(std::vector<model::AdaptedRows>& list, const model::AdaptedRows& rows) {
  if (rows.num_rows == 0) return;
  const bool continues = !list.empty() && list.back().adapter == rows.adapter &&
                         list.back().first_row + list.back().num_rows == rows.first_row;
  if (continues) {
    list.back().num_rows += rows.num_rows;
  } else {
    list.push_back(rows);
  }
}

std::int64_t padded(std::int64_t elements) {
  return divide_up(elements, kArrayElements) * kArrayElements;
}

}  // namespace

BatchBuilder::BatchBuilder(const Stream& stream, const Limits& limits)
    : sampled_(stream, limits.vocab),
      limits_(limits),
      device_(stream.device()),
      block_(device_, DType::kI32, {most_elements()}) {
  const auto reserve = [](auto& array, std::int64_t size) {
    array.reserve(static_cast<std::size_t>(size));
  };
  for (std::vector<std::int32_t>* array : {&tokens_, &slots_, &vision_rows_}) {
    reserve(*array, limits.max_tokens);
  }
  positions_.resize(static_cast<std::size_t>(limits.position_axes));
  for (std::vector<std::int32_t>& axis : positions_) reserve(axis, limits.max_tokens);
  reserve(positions_.front(), limits.position_axes * limits.max_tokens);
  for (std::vector<std::int32_t>* array : {&cu_seqlens_, &context_lens_}) {
    reserve(*array, limits.max_sequences + 1);
  }
  reserve(logit_rows_, limits.max_logit_rows);
  reserve(block_tables_, limits.max_sequences * limits.max_pages);
  reserve(batch_.vision, limits.max_sequences);
  reserve(watched_, limits.max_sequences);
  reserve(clusters_, limits.max_sequences);
  reserve(adapted_, limits.max_sequences);
  reserve(adapted_logits_, limits.max_sequences);
  sampled_.reserve(limits.max_logit_rows, 0);
  beams_.reserve(limits.max_logit_rows, 0);
}

std::int64_t BatchBuilder::most_elements() const {
  return (3 + limits_.position_axes) * limits_.max_tokens + 2 * (limits_.max_sequences + 1) +
         limits_.max_logit_rows +
         limits_.max_sequences * (limits_.max_pages + max_sampled_ids_ + max_beam_ids_) +
         sampled_.most_row_elements(limits_.max_logit_rows) +
         BeamRowList::num_row_elements(limits_.max_logit_rows) + kNumArrays * kArrayElements;
}

void BatchBuilder::reserve(const Sequence& sequence) {
  const std::int64_t most_sampled_ids = sampled_.most_ids(sequence, limits_.max_drafts);
  const std::int64_t most_beam_ids = BeamRowList::most_ids(sequence);
  if (most_sampled_ids <= max_sampled_ids_ && most_beam_ids <= max_beam_ids_) return;
  max_sampled_ids_ = std::max(max_sampled_ids_, most_sampled_ids);
  max_beam_ids_ = std::max(max_beam_ids_, most_beam_ids);
  sampled_.reserve(limits_.max_logit_rows, limits_.max_sequences * max_sampled_ids_);
  beams_.reserve(limits_.max_logit_rows, limits_.max_sequences * max_beam_ids_);
  if (block_.shape()[0] < most_elements()) {
    block_ = StagedTensor(device_, DType::kI32, {most_elements()});
  }
}

void BatchBuilder::begin(std::int64_t max_pages) {
  for (std::vector<std::int32_t>* array : {&tokens_, &cu_seqlens_, &context_lens_, &block_tables_,
                                           &slots_, &vision_rows_, &logit_rows_}) {
    array->clear();
  }
  for (std::vector<std::int32_t>& axis : positions_) axis.clear();
  cu_seqlens_.push_back(0);
  batch_.vision.clear();
  watched_.clear();
  clusters_.clear();
  adapted_.clear();
  adapted_logits_.clear();
  sampled_.clear();
  beams_.clear();
  batch_.layers = {};
  layers_ = Layers::kAlways;
  max_pages_ = max_pages;
}

void BatchBuilder::begin_guesses(std::int64_t max_pages, std::span<const std::int32_t> layers,
                                 Layers use) {
  begin(max_pages);
  batch_.layers = layers;
  layers_ = use;
}

void BatchBuilder::add(const scheduler::PlannedSequence& planned, Sequence& sequence,
                       const kv::PageTable& pages) {
  const std::int64_t begin = planned.first_token;
  const std::int64_t end = begin + planned.num_tokens;
  add_vision(begin, end, sequence);
  add_compression(planned, sequence);
  add_adapter(planned, sequence);
  const std::span<const std::int32_t> ids = sequence.ids_of(planned.branch);
  const std::int64_t num_known = std::ssize(ids);
  for (std::int64_t position = begin; position < end; ++position) {
    tokens_.push_back(position < num_known
                          ? ids[static_cast<std::size_t>(position)]
                          : sequence.drafts[static_cast<std::size_t>(position - num_known)]);
    slots_.push_back(pages.slot(position - planned.num_saved));
  }
  for (std::size_t axis = 0; axis < positions_.size(); ++axis) {
    for (std::int64_t index = begin; index < end; ++index) {
      positions_[axis].push_back(sequence.position(static_cast<std::int64_t>(axis), index));
    }
  }
  for (const kv::PageId page : pages.pages()) {
    block_tables_.push_back(static_cast<std::int32_t>(page));
  }
  end_sequence(end - planned.num_saved);
  for (std::int64_t left = planned.num_logits(); left > 0; --left) {
    logit_rows_.push_back(static_cast<std::int32_t>(std::ssize(tokens_) - left));
  }
  sampled_.add(sequence, planned.num_logits());
  if (sequence.has_beams() && planned.num_logits() > 0) {
    beams_.add(sequence, planned.branch);
  } else {
    beams_.add_unused(planned.num_logits());
  }
}

void BatchBuilder::add_guess(const Sequence& sequence, std::span<const std::int32_t> guesses,
                             std::span<const std::int32_t> table) {
  const std::span<const std::int32_t> tokens = guesses.empty() ? sequence.tokens : guesses;
  add_guessed(sequence, {.first = std::ssize(sequence.tokens) - 1 + std::ssize(guesses),
                         .tokens = tokens.last(1),
                         .table = table});
  sampled_.add_guess(sequence, guesses);
  beams_.add_unused(1);
}

void BatchBuilder::add_for_host(const Sequence& sequence, const GuessedTokens& guessed) {
  add_guessed(sequence, guessed);
  sampled_.add_for_host(std::ssize(guessed.tokens));
  beams_.add_unused(std::ssize(guessed.tokens));
}

void BatchBuilder::add_guessed(const Sequence& sequence, const GuessedTokens& guessed) {
  const std::int64_t count = std::ssize(guessed.tokens);
  clusters_.push_back(nullptr);
  add_adapter({.num_tokens = count, .num_drafts = count - 1, .is_last_known = true}, sequence);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t index = guessed.first + i;
    const std::int32_t page = guessed.table[static_cast<std::size_t>(index / kv::kPageTokens)];
    logit_rows_.push_back(static_cast<std::int32_t>(tokens_.size()));
    tokens_.push_back(guessed.tokens[static_cast<std::size_t>(i)]);
    slots_.push_back(static_cast<std::int32_t>(page * kv::kPageTokens + index % kv::kPageTokens));
    for (std::size_t axis = 0; axis < positions_.size(); ++axis) {
      positions_[axis].push_back(sequence.position(static_cast<std::int64_t>(axis), index));
    }
  }
  block_tables_.insert(block_tables_.end(), guessed.table.begin(), guessed.table.end());
  end_sequence(guessed.first + count);
}

// The sequence's rows and pages have been added.
void BatchBuilder::end_sequence(std::int64_t context_tokens) {
  cu_seqlens_.push_back(static_cast<std::int32_t>(tokens_.size()));
  context_lens_.push_back(static_cast<std::int32_t>(context_tokens));
  block_tables_.resize(context_lens_.size() * static_cast<std::size_t>(max_pages_), -1);
}

bool BatchBuilder::is_plain_decode() const {
  const auto is_compressed = [](const auto* clusters) { return clusters != nullptr; };
  return layers_ == Layers::kAlways && logit_rows_.size() == tokens_.size() &&
         vision_rows_.empty() && watched_.empty() && adapted_.empty() &&
         std::none_of(clusters_.begin(), clusters_.end(), is_compressed);
}

void BatchBuilder::widen_tables(std::int64_t pages) {
  if (pages == max_pages_) return;
  const auto from = static_cast<std::size_t>(max_pages_);
  const auto to = static_cast<std::size_t>(pages);
  const std::size_t num_tables = context_lens_.size();
  block_tables_.resize(num_tables * to, -1);
  for (std::size_t table = num_tables; table-- > 1;) {
    const auto first = block_tables_.begin() + static_cast<std::ptrdiff_t>(table * from);
    const auto last = first + static_cast<std::ptrdiff_t>(from);
    const auto target = block_tables_.begin() + static_cast<std::ptrdiff_t>(table * to);
    std::copy_backward(first, last, target + static_cast<std::ptrdiff_t>(from));
  }
  for (std::size_t table = 0; table < num_tables; ++table) {
    const auto row = block_tables_.begin() + static_cast<std::ptrdiff_t>(table * to);
    std::fill(row + static_cast<std::ptrdiff_t>(from), row + static_cast<std::ptrdiff_t>(to), -1);
  }
  max_pages_ = pages;
}

void BatchBuilder::pad(std::int64_t rows, std::int64_t table_pages, std::int64_t page) {
  widen_tables(table_pages);
  const std::int64_t num_added = rows - num_rows();
  CAPTION_CHECK(num_added >= 0 && num_added <= kv::kPageTokens, "engine: padding of no page");
  for (std::int64_t position = 0; position < num_added; ++position) {
    logit_rows_.push_back(static_cast<std::int32_t>(tokens_.size()));
    tokens_.push_back(0);
    slots_.push_back(static_cast<std::int32_t>(page * kv::kPageTokens + position));
    for (std::vector<std::int32_t>& axis : positions_) {
      axis.push_back(static_cast<std::int32_t>(position));
    }
  }
  sampled_.add_unused(num_added);
  beams_.add_unused(num_added);
  if (num_added > 0) {
    block_tables_.push_back(static_cast<std::int32_t>(page));
    end_sequence(num_added);
  }
  const std::int64_t num_sequences = std::min(rows, limits_.max_sequences);
  while (std::ssize(context_lens_) < num_sequences) end_sequence(0);
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

// Called before the sequence's rows are added to tokens_ and logit_rows_.
void BatchBuilder::add_adapter(const scheduler::PlannedSequence& planned,
                               const Sequence& sequence) {
  if (!sequence.adapter.has_value()) return;
  append(adapted_, {.adapter = *sequence.adapter,
                    .first_row = static_cast<std::int32_t>(tokens_.size()),
                    .num_rows = static_cast<std::int32_t>(planned.num_tokens)});
  append(adapted_logits_, {.adapter = *sequence.adapter,
                           .first_row = static_cast<std::int32_t>(logit_rows_.size()),
                           .num_rows = static_cast<std::int32_t>(planned.num_logits())});
}

// The vision tokens among positions [begin, end) are consecutive rows of the request's tensors.
void BatchBuilder::add_vision(std::int64_t begin, std::int64_t end, const Sequence& sequence) {
  const auto& positions = sequence.vision_positions;
  const auto first = std::lower_bound(positions.begin(), positions.end(), begin);
  const auto last = std::lower_bound(first, positions.end(), end);
  if (first == last) return;
  const auto first_row = static_cast<std::int64_t>(tokens_.size());
  for (auto position = first; position != last; ++position) {
    vision_rows_.push_back(static_cast<std::int32_t>(first_row + *position - begin));
  }
  std::int64_t begin_row = first - positions.begin();
  std::int64_t end_row = last - positions.begin();
  for (const std::shared_ptr<const Tensor>& piece : sequence.vision) {
    const std::int64_t num_rows = piece->dim(0);
    const std::int64_t from = std::max<std::int64_t>(begin_row, 0);
    const std::int64_t to = std::min(end_row, num_rows);
    if (from < to) batch_.vision.push_back(piece->view().rows(from, to - from));
    begin_row -= num_rows;
    end_row -= num_rows;
  }
}

const model::StepBatch& BatchBuilder::finish(Stream& stream) {
  const auto num_sequences = std::ssize(context_lens_);
  std::vector<std::int32_t>& positions = positions_.front();
  for (std::size_t axis = 1; axis < positions_.size(); ++axis) {
    positions.insert(positions.end(), positions_[axis].begin(), positions_[axis].end());
  }
  Shape position_shape = {std::ssize(tokens_)};
  if (positions_.size() > 1) position_shape = {std::ssize(positions_), std::ssize(tokens_)};
  struct Array {
    const std::vector<std::int32_t>& host;
    ConstView& view;
    Shape shape;
  };
  const auto vector = [](const std::vector<std::int32_t>& host, ConstView& view) {
    return Array{host, view, {std::ssize(host)}};
  };
  ConstView row_elements;
  ConstView beam_elements;
  const Array arrays[kNumArrays] = {
      vector(tokens_, batch_.tokens),
      {positions, batch_.positions, position_shape},
      vector(cu_seqlens_, batch_.cu_seqlens),
      vector(context_lens_, batch_.context_lens),
      {block_tables_, batch_.block_tables, {num_sequences, max_pages_}},
      vector(slots_, batch_.slots),
      vector(vision_rows_, batch_.vision_rows),
      vector(logit_rows_, batch_.logit_rows),
      vector(sampled_.rows(), row_elements),
      vector(sampled_.ids(), sampled_ids_),
      vector(beams_.rows(), beam_elements),
      vector(beams_.ids(), beam_ids_)};
  std::int64_t total = 0;
  for (const Array& array : arrays) total += padded(std::ssize(array.host));
  if (block_.shape()[0] < total) block_ = StagedTensor(device_, DType::kI32, {total});
  std::int64_t begin = 0;
  for (const Array& array : arrays) {
    std::copy(array.host.begin(), array.host.end(), block_.host().as<std::int32_t>() + begin);
    array.view = block_.device().rows(begin, std::ssize(array.host)).reshape(array.shape);
    begin += padded(std::ssize(array.host));
  }
  block_.upload(stream, total);
  const auto as_rows = [this](ConstView elements, std::int64_t bytes_of_row) {
    const std::int64_t bytes = elements.num_elements() * std::int64_t{sizeof(std::int32_t)};
    return ConstView(elements.raw(), DType::kI8, {bytes / bytes_of_row, bytes_of_row}, device_);
  };
  row_samplings_ = as_rows(row_elements, kernels::kRowSamplingBytes);
  beam_rows_ = as_rows(beam_elements, kernels::kBeamRowBytes);
  batch_.watched = watched_;
  batch_.adapted = adapted_;
  batch_.adapted_logits = adapted_logits_;
  const bool has_clusters = std::any_of(clusters_.begin(), clusters_.end(),
                                        [](const auto* clusters) { return clusters != nullptr; });
  batch_.clusters = {};
  if (has_clusters) batch_.clusters = clusters_;
  return batch_;
}

}  // namespace caption::engine
