#include "engine/internal/validate.h"

#include <algorithm>
#include <limits>
#include <string>

#include "base/counted.h"
#include "base/error.h"
#include "sampling/sampler.h"
#include "scheduler/positions.h"

namespace caption::engine {
namespace {

void check_positions(const Request& request, const model::DecoderSpec& spec) {
  if (request.positions.empty()) return;
  CAPTION_CHECK(spec.has_mrope(), "request: positions for a decoder without M-RoPE");
  CAPTION_CHECK(std::ssize(request.positions) == 3 * std::ssize(request.prompt_ids),
                "request: " + std::to_string(request.positions.size()) + " positions for " +
                    std::to_string(request.prompt_ids.size()) + " tokens and three axes");
  const auto [low, high] = std::minmax_element(request.positions.begin(), request.positions.end());
  CAPTION_CHECK(*low >= 0 && *high < std::numeric_limits<std::int32_t>::max() / 2,
                "request: positions from " + std::to_string(*low) + " to " + std::to_string(*high));
}

void check_vision(const Request& request, const model::DecoderSpec& spec, Device device) {
  std::int64_t num_left = std::ssize(request.vision_positions);
  const auto check_piece = [&](const Tensor* piece, std::int64_t num_rows) {
    const bool fits = piece != nullptr && piece->dtype() == DType::kF32 && num_rows > 0 &&
                      piece->shape() == Shape{num_rows, spec.vision_width()};
    const Shape found = piece == nullptr ? Shape{0} : piece->shape();
    CAPTION_CHECK(fits, "request: vision tokens of shape " + found.to_string() + " for " +
                            std::to_string(num_rows) + " positions of width " +
                            std::to_string(spec.vision_width()));
    CAPTION_CHECK(piece->device() == device,
                  "request: vision tokens on another device than the engine's");
    num_left -= num_rows;
  };
  for (const SharedVision& shared : request.leading_vision) {
    const Tensor* const piece = shared.tokens.get();
    check_piece(piece, piece == nullptr || piece->shape().rank() != 2
                           ? num_left
                           : std::min(piece->dim(0), num_left));
  }
  if (num_left != 0) check_piece(request.vision.get(), num_left);
}

}  // namespace

void validate(const Request& request, const model::DecoderSpec& spec, Device device) {
  sampling::validate(request.sampling, spec.vocab);
  if (request.sampling.num_beams > 1 && request.on_token) {
    throw Error(ErrorCode::kUsage,
                "request: beams have no tokens to hand out before they end; use num_beams 1");
  }
  if (request.sampling.num_beams > 1 && request.process_logits) {
    throw Error(ErrorCode::kUsage,
                "request: the logits of beams are not handed out; use num_beams 1");
  }
  const auto num_prompt = std::ssize(request.prompt_ids);
  CAPTION_CHECK(num_prompt >= 1, "request: the prompt is empty");

  check_vision(request, spec, device);
  check_positions(request, spec);
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

  // With M-RoPE a prompt may end at a position before or after its number of tokens.
  const std::int64_t next_position =
      request.positions.empty()
          ? num_prompt
          : 1 + *std::max_element(request.positions.begin(), request.positions.end());
  const std::int64_t num_positions = scheduler::num_positions(
      std::max<std::int64_t>(num_prompt, next_position), request.sampling.max_new_tokens);
  if (num_positions > spec.max_positions) {
    throw Error(ErrorCode::kTooLong,
                "request: " + counted(num_prompt, "prompt token") + " and " +
                    counted(request.sampling.max_new_tokens, "new token") + " need " +
                    counted(num_positions, "position") + "; the model has " +
                    std::to_string(spec.max_positions) + "; use fewer frames" +
                    (request.positions.empty() ? "" : ", smaller ones") + " or fewer new tokens");
  }
}

void validate_adapter(const Request& request, std::int64_t num_adapters) {
  if (!request.adapter.has_value()) return;
  CAPTION_CHECK(*request.adapter >= 0 && *request.adapter < num_adapters,
                "request: adapter " + std::to_string(*request.adapter) + " of " +
                    std::to_string(num_adapters));
  CAPTION_CHECK(request.page_identity.has_value(),
                "request: an adapter without the identity of its pages");
}

}  // namespace caption::engine
