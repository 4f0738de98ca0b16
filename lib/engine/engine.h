// engine/engine.h: offline batch inference: submit() requests, step() until idle.
//
// The engine executes the scheduler's plans on a model::Decoder over pages it owns. A request's
// output depends only on the request: on the CPU it is bit-identical for any other requests, batch
// mode, chunking, preemption, prefix hits and order of submission.
//
// A request keeps its vision tokens until it completes, since a preempted one computes its prompt
// again. Steady decoding steps allocate no memory in the engine. One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
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

// The result of Request::on_token.
enum class TokenVerdict {
  kContinue,
  kStop,  // the output ends with this token, as with a stop id
};

// Vision tokens that several requests share.
struct SharedVision {
  std::shared_ptr<const Tensor> tokens;  // [n, vision_width] f32 on the engine's device, n >= 1
  Hash128 content = {};                  // as Request::vision_content
};

struct Request {
  std::vector<std::int32_t> prompt_ids = {};        // >= 1 ids, with placeholders
  std::vector<std::int32_t> vision_positions = {};  // ascending positions in prompt_ids
  // [3, prompt_ids.size()] for a decoder with M-RoPE: positions in time, height and width, which
  // prompt_ids and the vision tokens' content determine; tokens after the prompt follow the largest
  // one. Empty: the positions 0, 1, 2, ... along every axis.
  std::vector<std::int32_t> positions = {};
  // The first vision tokens of the prompt, such as those of example videos, which requests on other
  // videos share.
  std::vector<SharedVision> leading_vision = {};
  // The other vision tokens, [vision_positions.size() less those, vision_width] f32 on the engine's
  // device, or null if there are none; several requests on one video can share it.
  std::shared_ptr<const Tensor> vision = {};
  // Identifies, for the prefix cache, what the tokens of `vision` were made of (the hash of the
  // preprocessed pixels). If not set, these tokens themselves are hashed.
  std::optional<Hash128> vision_content = std::nullopt;
  // The decoder's adapter for all tokens of the request, in [0, Decoder::num_adapters()). Requests
  // with different adapters may share a step.
  std::optional<std::int32_t> adapter = std::nullopt;
  // Replaces EngineOptions::page_identity for a request whose pages are computed otherwise;
  // required with an adapter, whose content it must identify.
  std::optional<Hash128> page_identity = std::nullopt;
  sampling::SamplingParams sampling = {};
  std::int32_t priority = 0;  // higher first; ages as described in scheduler/scheduler.h
  // Called inside step() with each token when it is chosen, including a stop id; once per token,
  // also after a preemption. May be empty; must be empty with beams. Must not call the engine.
  std::function<TokenVerdict(std::int32_t token)> on_token = {};
  // Called inside step() with the model's logits [vocab] of the next token, f32 on the host, before
  // penalties and sampling, which go on with what it leaves there; once per token, also after a
  // preemption. Log-probabilities stay those of the model. An Error that it throws is the
  // request's. May be empty; must be empty with beams. Must not call the engine.
  std::function<void(std::span<float> logits)> process_logits = {};
};

enum class FinishReason {
  kStop,    // a stop id, or on_token returned kStop
  kLength,  // max_new_tokens
  kLoop,    // a cycle of tokens repeats (sampling/loop_detector.h)
  kFailed,  // see `error`; the other requests of the step are not affected
};
std::string_view finish_reason_name(FinishReason reason);  // "stop", "length", "loop", "failed"

struct Completion {
  RequestId id{};
  std::vector<std::int32_t> output_ids = {};  // includes the stop id
  FinishReason finish_reason = FinishReason::kStop;
  std::optional<Error> error = std::nullopt;  // set with kFailed: invalid logits, or no token left
  std::int64_t prompt_tokens = 0;
  std::int64_t vision_tokens = 0;
  std::int64_t first_token_us = 0;  // since submission; 0 if there is none
  std::int64_t total_us = 0;        // since submission
  std::int32_t num_preemptions = 0;
  std::int64_t cached_tokens = 0;  // prompt tokens found in the prefix cache at admission
  std::vector<sampling::TokenLogprobs> logprobs = {};  // one per output id, if requested
  double beam_score = 0;  // beams: sum of log-probabilities / length^length_penalty
};

// Counters since construction; means are over steps.
struct EngineStats {
  std::int64_t steps = 0;
  std::int64_t graph_steps = 0;        // launched as a graph (backend/graph.h)
  std::int64_t prefill_tokens = 0;     // computed, including recomputed ones
  std::int64_t recomputed_tokens = 0;  // prefill tokens that had been computed before
  std::int64_t decode_tokens = 0;
  std::int64_t draft_tokens = 0;     // computed besides the known ones
  std::int64_t accepted_tokens = 0;  // drafts that were right; part of decode_tokens
  std::int64_t preemptions = 0;
  std::int64_t busy_us = 0;  // time inside step()
  // Steps that computed no prompts took this time and gave these tokens.
  std::int64_t decode_steps_us = 0;
  std::int64_t decode_steps_tokens = 0;
  double mean_batch = 0;  // sequences per step
  std::int64_t pages_total = 0;
  std::int64_t pages_peak = 0;        // most pages referenced by sequences at one time
  std::int64_t page_bytes = 0;        // K and V of all layers of one page
  double mean_pages_used = 0;         // pages referenced by sequences
  double mean_page_waste = 0;         // share of their slots without a token, drafts counted
  double mean_compression_bytes = 0;  // memory of compressed attention besides the pages
  // Prefix cache: prompt tokens looked up at admission, and those found.
  std::int64_t prefix_lookup_tokens = 0;
  std::int64_t prefix_hit_tokens = 0;
  // Hits that the tiers had: pages evicted to the host's memory, and pages on disk.
  std::int64_t host_hit_tokens = 0;
  std::int64_t disk_hit_tokens = 0;
  std::int64_t evicted_pages = 0;      // cached pages reused for other content
  std::int64_t host_stored_pages = 0;  // copied to the host's memory

  double prefix_hit_rate() const {
    return prefix_lookup_tokens == 0
               ? 0
               : static_cast<double>(prefix_hit_tokens) / static_cast<double>(prefix_lookup_tokens);
  }
};

// Returns the bytes of the KV pages of an engine with these options: at most what its sequences can
// fill. Throws as the constructor of Engine for a budget of too few pages.
std::int64_t kv_pool_bytes(const model::DecoderSpec& spec, const EngineOptions& options);

class Engine {
 public:
  // `decoder` and `stream`, of the decoder's device, are borrowed and must outlive the engine.
  // Pages, batches and logits are on that device. A device that the host shares no memory with
  // chooses the tokens of requests that need nothing else; for beams, log-probabilities and
  // process_logits the logits are copied to the host, which chooses. Allocates the address
  // space of all pages at once (at most as many as max_num_seqs sequences of max_positions can
  // fill); the system commits a page's memory when it is first written. Throws Error(kOutOfMemory)
  // with the numbers when the budget holds fewer than two pages; Error(kUsage) for an option out of
  // range; Error(kUnavailable) for compressed attention on a GPU or of a model with a sliding
  // window. Throws as SelfDraft::attach().
  Engine(model::Decoder& decoder, Stream& stream, const EngineOptions& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Throws Error(kTooLong) with the numbers when prompt + max_new_tokens can never fit the pages or
  // the model's positions; Error(kUsage) for sampling parameters out of range or more beams than
  // max_num_seqs; Error(kInternal) for an inconsistent request. A refused request has no effect.
  RequestId submit(Request request);
  // Runs one step and returns the requests that finished in it, whose pages are then free. Empty
  // when idle. If the decoder throws, no request has advanced; requests that the step preempted
  // remain preempted.
  std::vector<Completion> step();
  // Removes a waiting or running request without a completion. Returns false if there is none.
  bool cancel(RequestId id);
  bool idle() const;
  // Number of requests that are waiting or running.
  std::int64_t num_unfinished() const;
  EngineStats stats() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace caption::engine
