// bench/workload.h: synthetic requests of known lengths. What they say is random; how long their
// prompts and outputs are is not.
//
// Outputs run to their length whatever the model would say: no stop ids, greedy, and no trigram
// twice (so that a model of random weights does not fall into a loop, which the engine would end).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "model/decoder.h"

namespace caption::bench {

struct WorkRequest {
  std::int64_t clip = -1;          // requests of one clip share its vision tokens; -1: none
  std::int64_t vision_tokens = 0;  // before the text
  std::int64_t prompt_tokens = 1;  // of text, >= 1
  std::int64_t output_tokens = 1;  // >= 1
};

struct Workload {
  std::string name;
  std::vector<WorkRequest> requests;  // in the order of submission
};

// `count` equal requests.
Workload make_fixed_workload(std::int64_t count, std::int64_t prompt_tokens,
                             std::int64_t output_tokens);

// Outputs of 500, 20 and 200 tokens in turn, times `scale` (at least one token each): the lengths
// that leave a static batch half empty.
Workload make_uneven_workload(std::int64_t count, std::int64_t prompt_tokens, double scale);

// Lengths drawn by `seed`: of ten requests, about seven ask briefly and answer briefly, two have a
// long prompt and one a long output. Long is `longest` tokens, brief a sixteenth of it; each length
// is uniform between half of that and that.
Workload make_mixed_workload(std::int64_t count, std::int64_t longest, std::uint64_t seed);

// Each clip with each of several prompts, clip by clip.
struct SharedClips {
  std::int64_t num_clips = 1;
  std::int64_t prompts_per_clip = 3;
  std::int64_t vision_tokens = 1;
  std::int64_t prompt_tokens = 1;
  std::int64_t output_tokens = 1;
};
Workload make_prefix_workload(const SharedClips& shape);

std::int64_t longest_sequence(const Workload& workload);  // in tokens

// The workload as requests to an engine; the same for the same seed. Vision tokens of a clip are
// shared between its requests. Throws Error(kUsage) when a request is longer than the model's
// positions.
std::vector<engine::Request> make_requests(const Workload& workload, const model::DecoderSpec& spec,
                                           std::uint64_t seed);

}  // namespace caption::bench
