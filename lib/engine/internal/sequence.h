// engine/internal/sequence.h: a request on its way through the engine.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "sampling/loop_detector.h"
#include "sampling/sampling_params.h"
#include "tensor/tensor.h"

namespace caption::engine {

struct Sequence {
  RequestId id{};
  std::vector<std::int32_t> tokens;  // prompt, then output
  std::int64_t num_prompt = 0;
  std::vector<std::int32_t> vision_positions;
  std::shared_ptr<const Tensor> vision;
  sampling::SamplingParams sampling;
  sampling::LoopDetector loop;
  std::int64_t num_ever_computed = 0;  // the most tokens that were in pages at a time
  std::int32_t num_preemptions = 0;
  std::int64_t submitted_at_us = 0;
  std::int64_t first_token_us = 0;  // after submission

  std::span<const std::int32_t> output() const {
    return std::span(tokens).subspan(static_cast<std::size_t>(num_prompt));
  }
};

}  // namespace caption::engine
