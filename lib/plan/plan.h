// plan/plan.h: predicts memory use and bounds on speed from a model's shapes, without opening
// weights.
//
//   memory     weights, KV pages, activations, queues and fixed costs against the usable memory
//   pages      16 tokens each; a video needs pages for vision + prompt + output - 1 tokens
//   roofline   a step takes at least max(bytes / bandwidth, FLOPs / FLOP rate)
//
// Bytes and pages equal those of a run (tests/plan/plan_test.cpp). Speeds are bounds, as accurate
// as the two rates they are derived from. The gain of speculative decoding is not predicted,
// because it depends on the acceptance rate of the draft.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/context.h"
#include "model/adapter_load.h"
#include "model/blueprint.h"
#include "plan/step_cost.h"
#include "scheduler/options.h"
#include "scheduler/step_limits.h"
#include "tensor/dtype.h"
#include "weights/format.h"

namespace caption::plan {

struct Rates {
  double bytes_per_s = 0;
  double flops_per_s = 0;
  std::string source;  // "measured here on 2 threads", "data sheet of an L4"
};

// The memory that holds the pages, and what else it holds.
enum class PlanDevice {
  kHost,  // weights are mapped; pages and activations are in host memory
  kCard,  // a CUDA device; clips and their queues stay in host memory
};

struct PlanInput {
  std::string preset;
  model::Blueprint model;                 // must have a decoder
  std::optional<model::Blueprint> draft;  // draft model of speculative decoding; 16-bit weights
  PlanDevice device = PlanDevice::kHost;
  std::string device_name;
  std::int64_t memory_bytes = 0;
  double memory_utilization = 0.9;
  weights::WeightFormat weights = weights::WeightFormat::kBF16;
  DType kv_dtype = DType::kBF16;
  model::AdapterLoad adapters = {};  // what adapters add beside the weights
  // Byte budget of the engine for pages; if not set, what memory_utilization leaves.
  std::optional<std::int64_t> kv_cache_bytes;
  // Whether kv_cache_bytes comes from --kv-cache-bytes or the preset.
  bool is_kv_cache_given = false;
  std::int64_t max_num_seqs = scheduler::kDefaultMaxSeqs;
  std::int64_t max_num_batched_tokens = scheduler::kDefaultMaxBatchedTokens;
  std::int64_t max_drafts = 0;         // tokens that a step may guess for a sequence
  std::int64_t max_copied_tokens = 0;  // tokens that a step may guess besides, after prompts
  bool has_self_drafts = false;        // the model itself guesses, in pages of its own
  // The most rows of logits in a step.
  std::int64_t num_logit_rows() const {
    return scheduler::StepLimits{.max_num_seqs = max_num_seqs,
                                 .max_num_batched_tokens = max_num_batched_tokens,
                                 .max_drafts = max_drafts,
                                 .max_copied_tokens = max_copied_tokens}
        .most_logit_rows();
  }
  bool chunked_prefill = true;
  std::int64_t num_beams = 1;
  // Whether attention is compressed after the prompt; beams then share none of its pages.
  bool is_prompt_compressed = false;
  std::int64_t num_frames = 8;
  // Size of the videos' frames; it counts for models that take frames of any size.
  model::FrameSize frame;
  std::int64_t prompt_tokens = 64;  // tokens of text, and of everything before the clip's question
  // Parts of prompt_tokens.
  std::int64_t system_tokens = 0;
  std::int64_t example_tokens = 0;
  std::int64_t output_tokens = 128;
  // The options that set prompt_tokens and output_tokens, for advice; not null.
  const char* prompt_option = "--prompt";
  const char* output_option = "--max-new-tokens";
  std::int64_t queue_bytes = 0;  // maximum size of the queues between the stages, in host memory
  std::int64_t host_pages_bytes = 0;  // most bytes of a card's evicted pages in host memory
  std::int64_t fixed_bytes = 0;       // size of the process, or of the card's context
  Rates rates;
  Context context = {};        // for the host: what the model would be opened for
  int compute_capability = 0;  // a card's, as in Context; 0: not known
  // Reasons why `run` would not start even if the memory suffices, each as a phrase; empty: none.
  std::vector<std::string> obstacles = {};
};

// Bytes of the weights as a run with the format holds them. kF32 has the numbers of the file, which
// take two bytes each where the file has 16 bits.
struct FormatBytes {
  weights::WeightFormat format = weights::WeightFormat::kF32;
  std::int64_t bytes = 0;
};
struct KvBytes {
  DType dtype = DType::kF32;
  std::int64_t token_bytes = 0;
};

enum class Limit { kMemory, kBandwidth, kCompute };
std::string_view limit_name(Limit limit);

// Why a plan does not fit.
enum class Refusal {
  kNone,
  kLength,      // a video needs more positions than the model has
  kBeams,       // num_beams exceeds max_num_seqs
  kWeights,     // the memory does not hold the weights
  kPages,       // the memory that is left does not hold the pages of a video
  kGivenPages,  // the given kv_cache_bytes do not
};

struct PlannedStep {
  StepCost cost;
  double seconds = 0;  // lower bound
  bool is_bound_by_bandwidth = false;
};

struct Plan {
  PlanInput input;
  model::ParameterCounts parameters;
  std::vector<FormatBytes> weight_bytes_by_format;
  std::vector<KvBytes> kv_bytes_by_dtype;
  std::int64_t weight_bytes = 0;  // in the chosen layout
  std::int64_t draft_weight_bytes = 0;
  std::int64_t token_bytes = 0;  // bytes of K and V per token in the chosen dtype
  std::int64_t draft_token_bytes = 0;
  std::int64_t step_tokens = 0;    // tokens in the largest step
  std::int64_t scratch_bytes = 0;  // predicted Decoder::scratch_bytes()
  // Logits of a step, and the workspace of sampling or, on a card, of steps
  // (kernels/step_scratch.h).
  std::int64_t logits_bytes = 0;
  std::int64_t graph_bytes = 0;       // on a card: graphs (an estimate) and the page of padding
  std::int64_t guess_page_bytes = 0;  // pages of self-drafts (engine::num_guess_pages())
  std::int64_t vision_bytes = 0;      // activations of the tower and the projector
  std::int64_t usable_bytes = 0;      // memory_utilization * memory
  std::int64_t page_bytes = 0;
  std::int64_t num_pages = 0;
  std::int64_t pool_bytes = 0;
  std::int64_t total_bytes = 0;  // on the device, if every page is written

  std::int64_t vision_tokens = 0;
  std::int64_t video_tokens = 0;  // vision + prompt + output
  std::int64_t pages_per_video = 0;
  // Videos per step: max_num_seqs, or fewer if the pages hold fewer.
  std::int64_t num_concurrent = 0;

  double vision_flops = 0;  // per video
  PlannedStep prefill;      // a step of max_num_batched_tokens prompt tokens
  PlannedStep decode;       // a step of num_concurrent sequences of mean length
  double vision_s = 0;      // lower bound of a video's time in the tower
  double prefill_tokens_per_s = 0;
  double decode_tokens_per_s = 0;
  double videos_per_s = 0;
  // kMemory with the first refusal if it does not fit.
  Limit limit = Limit::kBandwidth;
  std::string limit_reason;

  bool fits = true;                   // the device and the model can hold one video with its beams
  std::vector<std::string> warnings;  // each names a remedy
  Refusal refusal = Refusal::kNone;   // the first one

  // Whether the options, and not the memory, are why it does not fit.
  bool is_refused_by_options() const {
    return refusal == Refusal::kLength || refusal == Refusal::kBeams ||
           refusal == Refusal::kGivenPages;
  }
  // Whether `run` would start and could caption a video.
  bool can_run() const { return fits && input.obstacles.empty(); }
};

// What an engine on a card holds beside weights, activations and pages, with steps of at most
// `num_tokens` tokens and `num_logit_rows` rows of logits.
struct CardBytes {
  std::int64_t logits = 0;  // logits and the workspace of steps
  std::int64_t graphs = 0;  // an estimate that no measurement has confirmed
  std::int64_t padding_page = 0;

  std::int64_t total() const { return logits + graphs + padding_page; }
};
CardBytes card_bytes(const model::DecoderSpec& spec, std::int64_t num_tokens,
                     std::int64_t num_logit_rows, DType kv_dtype);

// Whether the number of vision tokens depends on the size of the videos' frames.
bool depends_on_frame_size(const PlanInput& input);

// Throws Error(kUsage) for a model without decoder or a rate that is not positive.
Plan make_plan(const PlanInput& input);

std::string to_text(const Plan& plan);
std::string to_json(const Plan& plan);  // one JSON object on one line

}  // namespace caption::plan
