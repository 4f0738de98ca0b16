// bench/plan.h: what will fit and how fast it can be, from the shapes alone: no weight is opened.
//
//   memory     weights, KV pages, activations, queues, fixed costs, against what may be used
//   pages      of 16 tokens; a video takes pages(vision + prompt + output - 1) of them
//   roofline   a step takes max(bytes / bandwidth, FLOPs / FLOP rate) at least
//
// Bytes and pages are those that a run then takes (tests/bench/plan_test.cpp); speeds are bounds,
// as good as the two rates they are made from. What speculation gains is not predicted: it depends
// on how often the draft is right.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/step_cost.h"
#include "bench/weight_layout.h"
#include "model/model_shape.h"
#include "tensor/dtype.h"

namespace caption::bench {

struct Rates {
  double bytes_per_s = 0;
  double flops_per_s = 0;
  std::string source;  // "measured here on 2 threads", "data sheet of an L4"
};

// Where the pages lie, and what else takes room there.
enum class PlanDevice {
  kHost,  // weights mapped, pages and activations in the machine's memory
  kCard,  // a CUDA device: clips and their queues stay in the host's memory
};

struct PlanInput {
  std::string preset;
  model::ModelShape model;                 // with a decoder
  std::optional<model::ModelShape> draft;  // of speculative decoding; 16-bit weights
  PlanDevice device = PlanDevice::kHost;
  std::string device_name;
  std::int64_t memory_bytes = 0;
  double memory_utilization = 0.9;
  WeightLayout weights = WeightLayout::kBF16;
  DType kv_dtype = DType::kBF16;
  // The engine's budget for pages; not set: what memory_utilization leaves.
  std::optional<std::int64_t> kv_cache_bytes;
  // kv_cache_bytes is what --kv-cache-bytes or the preset says.
  bool is_kv_cache_given = false;
  std::int64_t max_num_seqs = 16;
  std::int64_t max_num_batched_tokens = 2048;
  bool chunked_prefill = true;
  std::int64_t num_beams = 1;
  // Attention is compressed after the prompt: beams then share none of its pages.
  bool is_prompt_compressed = false;
  std::int64_t num_frames = 8;
  model::FrameSize frame;
  std::int64_t prompt_tokens = 64;
  std::int64_t output_tokens = 128;
  std::int64_t queue_bytes = 0;  // most that waits between the stages, in the host's memory
  std::int64_t fixed_bytes = 0;  // of the process, or of the card's context
  Rates rates;
  // Why `run` would not start here whatever fits, each as a phrase; empty: it would.
  std::vector<std::string> obstacles = {};
};

struct LayoutBytes {
  WeightLayout layout = WeightLayout::kF32;
  std::int64_t bytes = 0;
};
struct KvBytes {
  DType dtype = DType::kF32;
  std::int64_t token_bytes = 0;
};

enum class Limit { kMemory, kBandwidth, kCompute };
std::string_view limit_name(Limit limit);

struct PlannedStep {
  StepCost cost;
  double seconds = 0;  // at least
  bool is_bound_by_bandwidth = false;
};

struct Plan {
  PlanInput input;
  model::ParameterCounts parameters;
  std::vector<LayoutBytes> weight_bytes_by_layout;
  std::vector<KvBytes> kv_bytes_by_dtype;
  std::int64_t weight_bytes = 0;  // in the layout chosen
  std::int64_t draft_weight_bytes = 0;
  std::int64_t token_bytes = 0;  // of KV, in the dtype chosen
  std::int64_t draft_token_bytes = 0;
  std::int64_t step_tokens = 0;    // of the largest step
  std::int64_t scratch_bytes = 0;  // what Decoder::scratch_bytes() will say
  std::int64_t logits_bytes = 0;   // logits of a step and the sampler's workspace
  std::int64_t vision_bytes = 0;   // activations of tower and projector
  std::int64_t usable_bytes = 0;   // memory_utilization of the memory
  std::int64_t page_bytes = 0;
  std::int64_t num_pages = 0;
  std::int64_t pool_bytes = 0;
  std::int64_t total_bytes = 0;  // on the device, with every page written

  std::int64_t vision_tokens = 0;
  std::int64_t video_tokens = 0;  // vision + prompt + output
  std::int64_t pages_per_video = 0;
  std::int64_t num_concurrent = 0;  // videos in one step: max_num_seqs, or what the pages hold

  double vision_flops = 0;  // of a video
  PlannedStep prefill;      // of max_num_batched_tokens of prompt
  PlannedStep decode;       // of num_concurrent sequences at their mean length
  double vision_s = 0;      // the least time a video takes in the tower
  double prefill_tokens_per_s = 0;
  double decode_tokens_per_s = 0;
  double videos_per_s = 0;
  Limit limit = Limit::kBandwidth;
  std::string limit_reason;

  bool fits = true;                   // the device and the model hold a video, and the beams
  std::vector<std::string> warnings;  // each with its way out

  // Whether `run` would start here and caption a video.
  bool can_run() const { return fits && input.obstacles.empty(); }
};

// Throws Error(kUsage) for a model without decoder or a rate that is not positive.
Plan make_plan(const PlanInput& input);

std::string to_text(const Plan& plan);
std::string to_json(const Plan& plan);  // one object, a line of its own

}  // namespace caption::bench
