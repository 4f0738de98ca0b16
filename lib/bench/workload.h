// bench/workload.h: synthetic requests with random content and given lengths.
//
// Outputs reach their requested length for every model: no stop ids, greedy, and no repeated
// trigram (so that a model with random weights does not fall into a loop, which the engine would
// end).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "model/decoder.h"

namespace caption::bench {

struct WorkRequest {
  std::int64_t clip = -1;          // requests of one clip share its vision tokens; -1: none
  std::int64_t vision_tokens = 0;  // placed before the text
  std::int64_t prompt_tokens = 1;  // text tokens, >= 1
  std::int64_t output_tokens = 1;  // >= 1
};

struct Workload {
  std::string name;
  std::vector<WorkRequest> requests;  // in the order of submission
};

// Makes `count` equal requests.
Workload make_fixed_workload(std::int64_t count, std::int64_t prompt_tokens,
                             std::int64_t output_tokens);

// Makes requests with outputs of 500, 20 and 200 tokens in rotation, times `scale` (at least one
// token each): lengths that leave a static batch half empty.
Workload make_uneven_workload(std::int64_t count, std::int64_t prompt_tokens, double scale);

// Draws lengths from `seed`: about seven of ten requests have a short prompt and a short output,
// two a long prompt and one a long output. Long lengths are at most `longest` tokens and short ones
// a sixteenth of it; each length is uniform between half its maximum and its maximum.
Workload make_mixed_workload(std::int64_t count, std::int64_t longest, std::uint64_t seed);

// Requests for each clip with each of several prompts, clip by clip.
struct SharedClips {
  std::int64_t num_clips = 1;
  std::int64_t prompts_per_clip = 3;
  std::int64_t vision_tokens = 1;
  std::int64_t prompt_tokens = 1;
  std::int64_t output_tokens = 1;
};
Workload make_prefix_workload(const SharedClips& shape);

// The positions that the longest request needs.
std::int64_t most_positions(const Workload& workload);

// Converts the workload to engine requests; the same seed gives the same requests. The requests of
// a clip share its vision tokens. Throws Error(kUsage) when a request is longer than the model's
// positions.
std::vector<engine::Request> make_requests(const Workload& workload, const model::DecoderSpec& spec,
                                           std::uint64_t seed);

}  // namespace caption::bench
