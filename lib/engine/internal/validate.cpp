#include "engine/internal/validate.h"

#include <string>

#include "base/counted.h"
#include "base/error.h"
#include "sampling/sampler.h"

namespace caption::engine {

void validate(const Request& request, const model::DecoderSpec& spec, Device device) {
  sampling::validate(request.sampling, spec.vocab);
  if (request.sampling.num_beams > 1 && request.on_token) {
    throw Error(ErrorCode::kUsage,
                "request: beams have no tokens to hand out before they end; use num_beams 1");
  }
  const auto num_prompt = std::ssize(request.prompt_ids);
  CAPTION_CHECK(num_prompt >= 1, "request: the prompt is empty");

  const auto num_vision = std::ssize(request.vision_positions);
  const bool vision_fits =
      num_vision == 0 || (request.vision != nullptr && request.vision->dtype() == DType::kF32 &&
                          request.vision->shape() == Shape{num_vision, spec.hidden});
  const Shape found = request.vision == nullptr ? Shape{0} : request.vision->shape();
  CAPTION_CHECK(vision_fits, "request: vision tokens of shape " + found.to_string() + " for " +
                                 std::to_string(num_vision) + " positions of width " +
                                 std::to_string(spec.hidden));
  CAPTION_CHECK(num_vision == 0 || request.vision->device() == device,
                "request: vision tokens on another device than the engine's");
  auto next_vision = request.vision_positions.begin();
  for (std::int64_t position = 0; position < num_prompt; ++position) {
    if (next_vision != request.vision_positions.end() && *next_vision == position) {
      ++next_vision;
      continue;
    }
    const std::int32_t id = request.prompt_ids[static_cast<std::size_t>(position)];
    CAPTION_CHECK(id >= 0 && id < spec.vocab, "request: prompt id " + std::to_string(id) +
                                                  " is not in the vocabulary of " +
                                                  std::to_string(spec.vocab));
  }
  CAPTION_CHECK(next_vision == request.vision_positions.end(),
                "request: vision positions must ascend within the prompt");

  // The last new token is chosen but not computed, so it needs no position.
  const std::int64_t num_positions = num_prompt + request.sampling.max_new_tokens - 1;
  if (num_positions > spec.max_positions) {
    throw Error(ErrorCode::kTooLong, "request: " + counted(num_prompt, "prompt token") + " and " +
                                         counted(request.sampling.max_new_tokens, "new token") +
                                         " need " + counted(num_positions, "position") +
                                         "; the model has " + std::to_string(spec.max_positions) +
                                         "; use fewer frames or new tokens");
  }
}

}  // namespace caption::engine
