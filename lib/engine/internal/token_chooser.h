// engine/internal/token_chooser.h: the next token of a request: the device's, or one that the host
// chooses from logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/stream.h"
#include "engine/internal/sequence.h"
#include "engine/internal/step_runner.h"
#include "sampling/sampler.h"

namespace caption::engine {

// Allocates nothing per token, but for log-probabilities.
class TokenChooser {
 public:
  // `stream`, whose profile times the choice, is borrowed.
  TokenChooser(Stream& stream, std::int64_t vocab);

  // Appends the token that follows row `row` of `rows` to the sequence, which must not have beams,
  // and returns it. Throws Error(kBadModel) for a logit that is NaN or +inf, Error(kInternal) when
  // no id is left, and what process_logits throws.
  std::int32_t choose(Sequence& sequence, const RequestRows& rows, std::int64_t row);

  sampling::Sampler& sampler() { return sampler_; }

 private:
  void choose_on_host(Sequence& sequence, std::span<float> logits);

  Stream& stream_;
  sampling::Sampler sampler_;
  std::vector<float> raw_logits_;  // [vocab], for requests with log-probabilities
};

}  // namespace caption::engine
