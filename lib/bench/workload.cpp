#include "bench/workload.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <unordered_map>

#include "base/counted.h"
#include "base/error.h"
#include "scheduler/positions.h"

namespace caption::bench {
namespace {

// Uniform integer from the generator's raw output, because std:: distributions differ by library.
std::int64_t draw(std::mt19937_64& random, std::int64_t from, std::int64_t to) {
  const auto range = static_cast<std::uint64_t>(to - from + 1);
  return from + static_cast<std::int64_t>(random() % range);
}

std::shared_ptr<const Tensor> draw_vision(std::mt19937_64& random, std::int64_t num_tokens,
                                          std::int64_t hidden) {
  auto tokens = std::make_shared<Tensor>(DType::kF32, Shape{num_tokens, hidden});
  float* const values = tokens->as<float>();
  for (std::int64_t i = 0; i < tokens->num_elements(); ++i) {
    values[i] = static_cast<float>(draw(random, -1000, 1000)) * 1e-3F;
  }
  return tokens;
}

}  // namespace

Workload make_fixed_workload(std::int64_t count, std::int64_t prompt_tokens,
                             std::int64_t output_tokens) {
  const WorkRequest request = {.prompt_tokens = prompt_tokens, .output_tokens = output_tokens};
  return {.name = "fixed",
          .requests = std::vector<WorkRequest>(static_cast<std::size_t>(count), request)};
}

Workload make_uneven_workload(std::int64_t count, std::int64_t prompt_tokens, double scale) {
  constexpr std::array kOutputTokens = {500.0, 20.0, 200.0};
  Workload workload{.name = "static-vs-continuous", .requests = {}};
  for (std::int64_t i = 0; i < count; ++i) {
    const double tokens = kOutputTokens[static_cast<std::size_t>(i) % kOutputTokens.size()] * scale;
    workload.requests.push_back({.prompt_tokens = prompt_tokens,
                                 .output_tokens = std::max<std::int64_t>(1, std::llround(tokens))});
  }
  return workload;
}

Workload make_mixed_workload(std::int64_t count, std::int64_t longest, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto up_to = [&](std::int64_t tokens) {
    return std::max<std::int64_t>(1, draw(random, tokens / 2, tokens));
  };
  const std::int64_t brief = std::max<std::int64_t>(2, longest / 16);
  Workload workload{.name = "mixed", .requests = {}};
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t kind = draw(random, 0, 9);
    const bool has_long_prompt = kind == 7 || kind == 8;
    const bool has_long_output = kind == 9;
    const std::int64_t prompt_tokens = up_to(has_long_prompt ? longest : brief);
    workload.requests.push_back({.prompt_tokens = prompt_tokens,
                                 .output_tokens = up_to(has_long_output ? longest : brief)});
  }
  return workload;
}

Workload make_prefix_workload(const SharedClips& shape) {
  Workload workload{.name = "prefix", .requests = {}};
  for (std::int64_t clip = 0; clip < shape.num_clips; ++clip) {
    for (std::int64_t prompt = 0; prompt < shape.prompts_per_clip; ++prompt) {
      workload.requests.push_back({.clip = clip,
                                   .vision_tokens = shape.vision_tokens,
                                   .prompt_tokens = shape.prompt_tokens,
                                   .output_tokens = shape.output_tokens});
    }
  }
  return workload;
}

std::int64_t most_positions(const Workload& workload) {
  std::int64_t most = 0;
  for (const WorkRequest& request : workload.requests) {
    most = std::max(most, scheduler::num_positions(request.vision_tokens + request.prompt_tokens,
                                                   request.output_tokens));
  }
  return most;
}

std::vector<engine::Request> make_requests(const Workload& workload, const model::DecoderSpec& spec,
                                           std::uint64_t seed) {
  const std::int64_t most = most_positions(workload);
  if (most > spec.max_positions) {
    throw Error(ErrorCode::kUsage,
                "bench: a request needs " + counted(most, "position") + ", and the model holds " +
                    std::to_string(spec.max_positions) + "; use shorter prompts or outputs");
  }
  std::mt19937_64 random(seed);
  std::unordered_map<std::int64_t, std::shared_ptr<const Tensor>> clips;
  std::vector<engine::Request> requests;
  for (const WorkRequest& wanted : workload.requests) {
    engine::Request request;
    const auto placeholders = static_cast<std::size_t>(wanted.vision_tokens);
    request.prompt_ids.assign(placeholders, 0);
    if (wanted.vision_tokens > 0) {
      auto& vision = clips[wanted.clip];
      if (vision == nullptr) vision = draw_vision(random, wanted.vision_tokens, spec.hidden);
      request.vision = vision;
      for (std::int32_t i = 0; i < static_cast<std::int32_t>(placeholders); ++i) {
        request.vision_positions.push_back(i);
      }
    }
    for (std::int64_t i = 0; i < wanted.prompt_tokens; ++i) {
      request.prompt_ids.push_back(static_cast<std::int32_t>(draw(random, 0, spec.vocab - 1)));
    }
    request.sampling.no_repeat_ngram_size = 3;
    request.sampling.max_new_tokens = static_cast<std::int32_t>(wanted.output_tokens);
    request.sampling.min_new_tokens = request.sampling.max_new_tokens;
    requests.push_back(std::move(request));
  }
  return requests;
}

}  // namespace caption::bench
