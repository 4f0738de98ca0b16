// engine/engine.h: offline batch inference: submit() requests, step() until idle.
//
// The engine executes the scheduler's plans on a model::Decoder over pages it owns. A request's
// output depends on the request alone: not on its neighbours, on batch mode, chunking, preemption,
// prefix hits or the order of submission (bit for bit on the CPU).
//
// A request keeps its vision tokens until it leaves: a preempted one computes its prompt again.
// Steady decoding steps allocate no memory in the engine. One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/stream.h"
#include "base/error.h"
#include "base/hash.h"
#include "engine/options.h"
#include "model/decoder.h"
#include "sampling/logprobs.h"
#include "sampling/sampling_params.h"
#include "tensor/tensor.h"

namespace caption::engine {

enum class RequestId : std::int64_t {};

// What the receiver of a token says to it.
enum class TokenVerdict {
  kContinue,
  kStop,  // the output ends with this token, as with a stop id
};

struct Request {
  std::vector<std::int32_t> prompt_ids = {};        // >= 1, placeholders included
  std::vector<std::int32_t> vision_positions = {};  // ascending positions in prompt_ids
  // [vision_positions.size(), hidden] f32, or null; several requests on one video share it.
  std::shared_ptr<const Tensor> vision = {};
  // What the vision tokens were made of (the hash of the preprocessed pixels), for the prefix
  // cache. Not set: the hash of the tokens themselves.
  std::optional<Hash128> vision_content = std::nullopt;
  sampling::SamplingParams sampling = {};
  std::int32_t priority = 0;  // higher first; scheduler/scheduler.h says how it ages
  // Called inside step() with each token as it is chosen, a stop id included; once per token, also
  // when the request is preempted. May be empty; must be with beams. Must not call the engine.
  std::function<TokenVerdict(std::int32_t token)> on_token = {};
};

enum class FinishReason {
  kStop,    // a stop id, or on_token said so
  kLength,  // max_new_tokens
  kLoop,    // the same cycle of tokens without end (sampling/loop_detector.h)
  kFailed,  // `error` says why; the other requests of the step are not touched
};
std::string_view finish_reason_name(FinishReason reason);  // "stop", "length", "loop", "failed"

struct Completion {
  RequestId id{};
  std::vector<std::int32_t> output_ids = {};  // the stop id included
  FinishReason finish_reason = FinishReason::kStop;
  std::optional<Error> error = std::nullopt;  // with kFailed: broken logits, or no token left
  std::int64_t prompt_tokens = 0;
  std::int64_t vision_tokens = 0;
  std::int64_t first_token_us = 0;  // from submission; 0: there is none
  std::int64_t total_us = 0;        // from submission
  std::int32_t num_preemptions = 0;
  std::int64_t cached_tokens = 0;  // of the prompt, found in the prefix cache when it was admitted
  std::vector<sampling::TokenLogprobs> logprobs = {};  // by output id, when asked for
  double beam_score = 0;  // beams: sum of log-probabilities / length^length_penalty
};

// Counters since construction; means are over steps.
struct EngineStats {
  std::int64_t steps = 0;
  std::int64_t prefill_tokens = 0;     // computed; those of preempted requests again
  std::int64_t recomputed_tokens = 0;  // of these, computed before
  std::int64_t decode_tokens = 0;
  std::int64_t preemptions = 0;
  std::int64_t busy_us = 0;  // inside step()
  double mean_batch = 0;     // sequences per step
  std::int64_t pages_total = 0;
  std::int64_t pages_peak = 0;        // most that sequences named at a time
  std::int64_t page_bytes = 0;        // K and V of all layers of one page
  double mean_pages_used = 0;         // named by sequences
  double mean_page_waste = 0;         // share of their slots that holds no token
  double mean_compression_bytes = 0;  // held by compressed attention beside the pages
  // Prefix cache: prompt tokens that were looked up at admission, and those found.
  std::int64_t prefix_lookup_tokens = 0;
  std::int64_t prefix_hit_tokens = 0;
  std::int64_t disk_hit_tokens = 0;  // of the hits, read from the disk tier
  std::int64_t evicted_pages = 0;    // cached pages whose memory was taken for others

  double prefix_hit_rate() const {
    return prefix_lookup_tokens == 0
               ? 0
               : static_cast<double>(prefix_hit_tokens) / static_cast<double>(prefix_lookup_tokens);
  }
};

class Engine {
 public:
  // `decoder` and `stream` are borrowed and must outlive the engine. Allocates the pages at once
  // (no more than max_num_seqs sequences of max_positions could fill); the system commits their
  // memory as they are first written. Throws Error(kOutOfMemory) with the numbers when the budget
  // holds fewer than two pages; Error(kUsage) for an option out of range.
  Engine(model::Decoder& decoder, Stream& stream, const EngineOptions& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Throws Error(kTooLong) with the numbers when prompt + max_new_tokens can never fit the pages or
  // the model's positions; Error(kUsage) for sampling parameters out of range or more beams than
  // max_num_seqs; Error(kInternal) for a request that contradicts itself. A refused request leaves
  // no trace.
  RequestId submit(Request request);
  // One step of the plan; the requests that finished in it, their pages free again. Empty when
  // idle. When the decoder throws, the step has not happened: every request is as it was.
  std::vector<Completion> step();
  // Drops a waiting or running request; it will have no completion. False when there is none.
  bool cancel(RequestId id);
  bool idle() const;
  // Requests that are waiting or running.
  std::int64_t num_unfinished() const;
  EngineStats stats() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace caption::engine
