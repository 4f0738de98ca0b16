// bench/cuda_prediction.h: the time of a decoder's steps on NVIDIA cards, predicted without one.
//
// A launch takes the longest of the times that the card needs for its
//   DRAM bytes     at the card's rate, or at that which the bytes in flight allow, if it is lower:
//                  a multiprocessor receives them once in kLatency (Little's law)
//   L2 bytes       between L2 and multiprocessors, of every block
//   wavefronts     of shared memory and L1, one per clock and multiprocessor
//   products       m16n8k16 of tensor cores, or m16n8k32 of integers, which take as long; those of
//                  warpgroups take less
//   instructions   of warps, four per clock and multiprocessor
// and kLaunchSeconds, or kGraphLaunchSeconds in a decode step, which the engine launches as a graph
// (engine/internal/step_graphs.h), where kernels that may begin before the one before them has
// ended (kernels/cuda/dependent_launch.cuh) have kDependentLaunchSeconds; tensor cores and
// instructions need four warps of a multiprocessor for these rates. Attention also waits for its
// first loads. The host's work between steps is not counted, nor are rows that pad a step. A launch
// of few blocks has only the multiprocessors that these can be on, and takes as many rounds of
// blocks as it needs. Launches follow one another. So the prediction is a bound: waves of blocks,
// clocks under load and what L2 keeps between launches are not modelled. Activations count as DRAM
// bytes where an operation's exceed half of L2.
//
// The operations are those that model::TransformerDecoder issues for a step, and sample_rows(),
// which chooses the tokens; a test compares their numbers with a profile. Dense layers launch
// kernels/cuda/few_rows.cu for at most 16 rows, and for more kernels/cuda/warpgroup_gemm.cu or
// kernels/cuda/tile_gemm.cu; if their weights are codes,
// kernels/cuda/multiply_codes.cu for at most 32 and kernels/cuda/code_tiles.cu for more; with
// activations of 8 bits kernels/cuda/multiply_integers.cu and kernels/cuda/integer_tiles.cu.
// Attention on tensor cores is counted in bench/internal/attention_work.h.
// Instructions per product, warps of a multiprocessor and bytes in flight are those of
// kernels/cuda/resources.json. An operation for which the record has no kernel that this file knows
// is counted at its least, bytes and products alone, and named. Instructions of element-wise
// kernels are not counted. Tokens are drawn with temperature, top_k and top_p, the longest way
// through sample_rows() for a top_k that its blocks can list; penalties add less than a tenth.
//
// Not compared with a measurement.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/decoder.h"
#include "model/vision_spec.h"
#include "weights/format.h"

namespace caption::bench {

// From the end of a kernel to the begin of the next: launched one by one, an assumption; within a
// graph, the greater of two published measurements of chains of empty kernels: 1.3 us on an H100
// (hazyresearch.stanford.edu/blog/2025-05-27-no-bubbles, where it is 2.1 us without a graph), 0.58
// us on an RTX 5070 Ti (github.com/ahrefs/ocannl/issues/488).
inline constexpr double kLaunchSeconds = 1.5e-6;
inline constexpr double kGraphLaunchSeconds = 1.3e-6;
// The same within a graph for a launch that begins early: 0.96 us less, as an empty pair of kernels
// in a graph at 1.755 GHz showed (github.com/pegainfer-project/pegainfer/issues/569).
inline constexpr double kDependentLaunchSeconds = kGraphLaunchSeconds - 0.96e-6;
inline constexpr double kLatencySeconds = 1e-6;
// Latency of a load while few are under way: from L2 at most 339 clocks on an L40, where it depends
// on the multiprocessor (arXiv:2606.22588), and 262 to 273 on A100, H100 and RTX 4090; from DRAM
// 466 to 542 on these three (arXiv:2402.13499).
inline constexpr double kL2LatencyClocks = 339;
inline constexpr double kDramLatencyClocks = 542;

// What a prediction needs of a card (plan/cards.h, which has the meanings).
struct CudaCard {
  const char* name;           // "h100"
  int architecture;           // 10 * major + minor
  double num_sms;             // multiprocessors
  double clock_hz;            // highest
  double bytes_per_s;         // DRAM
  double l2_bytes;            // size
  double l2_bytes_per_clock;  // per multiprocessor
  double clocks_per_product;
  double clocks_of_warpgroups = 0;

  double clocks_per_s() const { return num_sms * clock_hz; }  // summed over multiprocessors
  double l2_latency_s() const { return kL2LatencyClocks / clock_hz; }
  double dram_latency_s() const { return kDramLatencyClocks / clock_hz; }
  // A product has 4,096 operations; one of integers has 8,192, at twice this rate.
  double flops_by_mma_per_s() const { return 4 * 4096 * clocks_per_s() / clocks_per_product; }
  // The dense rate of the tensor cores, which from sm_90 on products of warpgroups alone reach.
  double flops_per_s() const {
    return clocks_of_warpgroups > 0 ? 4 * 4096 * clocks_per_s() / clocks_of_warpgroups
                                    : flops_by_mma_per_s();
  }
};

// plan::cards(), in their order.
std::span<const CudaCard> cuda_cards();
// Null for an unknown name. Upper and lower case are the same.
const CudaCard* find_cuda_card(std::string_view name);

// All calls of an operation in a step.
struct CudaWork {
  std::string operation = {};  // as a profile names it: "linear_swiglu gate, up"
  std::string kernel = {};     // the struct's name in the record; empty: none is known
  std::int64_t calls = 0;
  std::int64_t launches = 0;
  double launch_seconds = kLaunchSeconds;
  double dram_bytes = 0;
  double l2_bytes = 0;
  double wavefronts = 0;
  double products = 0;
  double product_flops = 4096;  // operations of a product
  bool has_warpgroups = false;  // whether warpgroups make the products, not mma.sync
  double instructions = 0;      // per warp, summed over warps
  double bytes_in_flight = 0;   // per multiprocessor; 0: not stated
  double blocks = 0;            // per launch; 0: they fill the card
  double warps = 0;             // that are on a multiprocessor; 0: four or more
  double wait_seconds = 0;      // time of loads that nothing covers
};

struct CudaTime {
  double seconds = 0;
  std::string_view limit;  // "DRAM", "bytes in flight", "L2", "L1", "tensor cores", "issue"
  double share = 0;        // time that the limit alone needs / seconds
};

CudaTime predict(const CudaCard& card, const CudaWork& work);

// A step of equal sequences: each computes new_tokens, and then has context_tokens, these included.
struct CudaStep {
  std::string name = {};  // "decoding of 16 sequences of 1,280 tokens"
  std::int64_t num_sequences = 1;
  std::int64_t new_tokens = 1;
  std::int64_t context_tokens = 1;
  std::int32_t num_beams = 1;  // each request has so many; each is a sequence
  // So many sequences each share the pages of their first shared_tokens.
  std::int64_t sharing_sequences = 1;
  std::int64_t shared_tokens = 0;

  bool is_graph() const { return new_tokens == 1; }
};

// The operations of a step with 16-bit pages, each kind once, in their order; text alone, without
// adapters. f32 is taken for 16 bits.
std::vector<CudaWork> list_operations(const CudaCard& card, const model::DecoderSpec& shape,
                                      const CudaStep& step,
                                      weights::WeightFormat weights = weights::WeightFormat::kBF16);

// Frames of a fixed size through a tower of equal layers (VisionSpec::image_px > 0), with 16-bit
// weights: patch embedding and layers, without what turns their rows into vision tokens.
std::vector<CudaWork> list_tower_operations(const CudaCard& card, const model::VisionSpec& shape,
                                            std::int64_t num_frames);

// Prefill of 4,608 tokens; decoding of 1, 16 and 64 sequences of 1,280 tokens, of 1 and 16 of
// 8,192, of 16 requests with 4 beams of 1,280 that share no page, of 16 and 64 sequences of 1,280
// that share 512, and of 16 requests whose 4 beams share 1,152.
std::vector<CudaStep> predicted_steps();

// A table per step. Throws Error(kUsage) for an unknown card.
std::string prediction_table(std::string_view card_name, const std::string& subject,
                             const model::DecoderSpec& shape,
                             weights::WeightFormat weights = weights::WeightFormat::kBF16);
// The same of 64 frames through a tower with image_px > 0.
std::string tower_prediction_table(std::string_view card_name, const std::string& subject,
                                   const model::VisionSpec& shape);

}  // namespace caption::bench
