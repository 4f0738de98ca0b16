// engine/internal/sequence.h: the engine's state of one request.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/internal/compression.h"
#include "sampling/beam_search.h"
#include "sampling/logprobs.h"
#include "sampling/loop_detector.h"
#include "sampling/sampling_params.h"
#include "scheduler/scheduler.h"
#include "tensor/tensor.h"

namespace caption::engine {

struct Sequence {
  RequestId id{};
  std::vector<std::int32_t> tokens;  // prompt, then output; with beams the prompt only
  std::int64_t num_prompt = 0;
  // Tokens that are offered for the next step (drafts/draft_source.h).
  std::vector<std::int32_t> drafts;
  // The positions of the prompt's tokens along the axes of M-RoPE, [3, num_prompt]. Where it is
  // empty, the position of a token is its index.
  std::vector<std::int32_t> positions;
  // What is added to the index of a token after the prompt to get its position.
  std::int32_t position_shift = 0;
  std::vector<std::int32_t> vision_positions;
  std::vector<std::shared_ptr<const Tensor>> vision;  // pieces of the vision tokens, in order
  std::optional<std::int32_t> adapter;
  sampling::SamplingParams sampling;
  std::function<TokenVerdict(std::int32_t)> on_token;
  std::function<void(std::span<float>)> process_logits;
  std::optional<CompressedSequence> compressed;  // nullopt: full attention
  std::optional<sampling::BeamSearch> beams;     // set after the prompt
  std::vector<sampling::TokenLogprobs> logprobs;
  sampling::LoopDetector loop;
  std::int64_t num_ever_computed = 0;  // most tokens that were in pages at one time
  std::int32_t num_preemptions = 0;
  std::int64_t submitted_at_us = 0;
  std::int64_t first_token_us = 0;  // since submission

  // Takes the positions of the prompt's tokens, possibly none. num_prompt must have been set.
  void set_positions(std::vector<std::int32_t> prompt_positions) {
    positions = std::move(prompt_positions);
    if (positions.empty()) return;
    position_shift = *std::max_element(positions.begin(), positions.end()) + 1 -
                     static_cast<std::int32_t>(num_prompt);
  }
  bool has_beams() const { return sampling.num_beams > 1; }
  std::span<const std::int32_t> output() const {
    return std::span(tokens).subspan(static_cast<std::size_t>(num_prompt));
  }
  // The position of token `index` along an axis of M-RoPE.
  std::int32_t position(std::int64_t axis, std::int64_t index) const {
    if (index >= num_prompt || positions.empty()) {
      return static_cast<std::int32_t>(index) + position_shift;
    }
    return positions[static_cast<std::size_t>(axis * num_prompt + index)];
  }
  std::span<const std::int32_t> ids_of(std::int32_t branch) const {
    return beams.has_value() ? beams->running(branch) : std::span<const std::int32_t>(tokens);
  }
};

using Sequences = std::unordered_map<RequestId, std::unique_ptr<Sequence>>;

// The scheduler's number of a request, and back.
inline scheduler::SequenceId to_sequence_id(RequestId id) {
  return scheduler::SequenceId{static_cast<std::int64_t>(id)};
}
inline RequestId to_request_id(scheduler::SequenceId id) {
  return RequestId{static_cast<std::int64_t>(id)};
}

}  // namespace caption::engine
