// bench/internal/decoding.h: the time in which requests decode together.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"

namespace caption::bench {

using Ids = std::vector<std::int32_t>;

// Decoding of all sequences together, from the last prompt's end to the first output's end.
struct Decoding {
  double seconds = 0;
  std::int64_t num_steps = 0;
  std::int64_t num_tokens = 0;
  std::int64_t num_accepted = 0;
  std::vector<Ids> outputs;  // whole, in the order of submission
};

// Submits a request that a benchmark made. Throws Error(kUsage), which names its options in place
// of those of `run`, for one that the KV pages cannot hold.
engine::RequestId submit(engine::Engine& engine, engine::Request request);

// A sentence on how much the same work without drafts differed between runs, in which ratios of
// single runs differ as well; `plain` are pairs of a number of sequences and the speeds of these
// runs. Empty for fewer than two runs of each.
std::string describe_scatter(const std::vector<std::pair<std::int32_t, double>>& plain);

// Runs the requests to their ends. `on_submit` is called with the number of each (DraftQuery) when
// it is submitted, and with it; may be empty. Throws the error of a request that failed.
Decoding decode_together(
    engine::Engine& engine, std::vector<engine::Request> requests,
    const std::function<void(std::int64_t, const engine::Request&)>& on_submit = {});

}  // namespace caption::bench
