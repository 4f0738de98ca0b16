#include "config/plan_input.h"

#include <algorithm>
#include <string>

#include "backend/stream.h"
#include "backend/thread_pool.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/figures.h"
#include "bench/step_bench.h"
#include "config/devices.h"
#include "config/pipeline_options.h"
#include "config/resolve.h"
#include "pipeline/pipeline.h"
#include "pipeline/threads.h"
#include "plan/format_choice.h"

namespace caption::config {
namespace {

void set_cuda(plan::PlanInput& input) {
  // Approximate memory of the CUDA context and cuBLAS.
  constexpr std::int64_t kContextBytes = 600LL << 20;
  input.device = plan::PlanDevice::kCard;
  input.fixed_bytes = kContextBytes;
  model::hold_on_gpu(input.model);
  if (input.draft) model::hold_on_gpu(*input.draft);
}

double flops_per_s(const plan::Card& card, weights::WeightFormat format) {
  if (format == weights::WeightFormat::kFp8) return card.fp8_flops_per_s;
  return plan::has_8_bit_activations(format) ? card.int8_flops_per_s : card.flops_per_s;
}

void take_rates(const plan::Card& card, plan::PlanInput& input) {
  input.rates = {.bytes_per_s = card.bytes_per_s,
                 .flops_per_s = flops_per_s(card, input.weights),
                 .source = "data sheet of an " + std::string(card.product)};
}

}  // namespace

plan::PlanInput plan_input(const Preset& preset, const Context& context,
                           const model::Blueprint& model) {
  plan::PlanInput input;
  input.context = context;
  input.preset = preset.name;
  input.model = model;
  input.memory_utilization = preset.device.memory_utilization;
  input.weights = weight_format(preset.quantization);
  input.kv_dtype = kv_dtype(preset.quantization);
  input.is_kv_cache_given = preset.engine.kv_cache_bytes > 0;
  if (input.is_kv_cache_given) input.kv_cache_bytes = preset.engine.kv_cache_bytes;
  input.max_num_seqs = preset.engine.max_num_seqs;
  input.max_num_batched_tokens = preset.engine.max_num_batched_tokens;
  input.max_drafts = max_drafts(preset);
  if (model.text.has_value()) {
    input.max_copied_tokens = max_copied_tokens(preset, model.text->vocab);
  }
  input.has_self_drafts = preset.speculative.method == DraftMethod::kSelf;
  input.chunked_prefill = preset.engine.chunked_prefill;
  if (preset.engine.prefix_cache) input.host_pages_bytes = preset.engine.kv_host_bytes;
  input.num_beams = preset.generation.num_beams;
  input.is_prompt_compressed = preset.engine.attention != CompressionMode::kNone;
  input.num_frames = preset.video.num_frames;
  input.prompt_tokens = kUsualPromptTokens;
  input.output_tokens = preset.generation.max_new_tokens;
  const pipeline::Options queues;
  input.queue_bytes = queues.frame_queue_bytes + queues.vision_queue_bytes;
  return input;
}

void set_prompt(const PromptTokens& tokens, plan::PlanInput& input) {
  input.prompt_tokens = tokens.total() - tokens.vision;
  input.system_tokens = tokens.system;
  input.example_tokens = tokens.examples;
}

void set_card(const plan::Card& card, plan::PlanInput& input) {
  set_cuda(input);
  input.device_name = card.product;
  input.memory_bytes = card.memory_bytes;
  input.compute_capability = card.compute_capability;
  take_rates(card, input);
}

void set_card(const CudaDevice& device, plan::PlanInput& input) {
  set_cuda(input);
  input.device_name = device.name;
  input.memory_bytes = device.memory_bytes;
  input.compute_capability = 10 * device.compute_major + device.compute_minor;
  const bench::CudaCard* const known = bench::find_card_of(device);
  if (known != nullptr) take_rates(plan::find_card(known->name).value(), input);
}

std::optional<std::string> find_format_obstacle(const plan::PlanInput& input) {
  const bool is_card = input.device == plan::PlanDevice::kCard;
  return weights::find_obstacle({.device = is_card ? Device::kCuda : Device::kCpu,
                                 .compute_capability = input.compute_capability},
                                input.weights, format_without_fp8(input.model));
}

void limit_host_pages(const Preset& preset, const Machine& machine, plan::PlanInput& input) {
  input.host_pages_bytes = host_pages_bytes(preset, machine, num_devices(preset, machine));
}

void set_host(const Preset& preset, const Machine& machine,
              std::optional<std::int64_t> memory_bytes, plan::PlanInput& input) {
  input.device = plan::PlanDevice::kHost;
  input.host_pages_bytes = 0;  // pages are there already
  input.device_name = machine.cpu_model;
  input.memory_bytes = memory_bytes.value_or(machine.memory_bytes);
  const model::DecoderSpec& text = *input.model.text;
  const std::int64_t held_bytes =
      model::placed_bytes(input.context, input.model, input.weights) + input.adapters.size_bytes +
      model::decoder_scratch_bytes(Device::kCpu, text, input.max_num_batched_tokens,
                                   input.num_logit_rows(), input.adapters.max_rank);
  std::int64_t draft_bytes = guess_page_bytes(preset, text);
  std::int64_t draft_page_bytes = 0;
  if (input.draft.has_value()) {
    draft_bytes +=
        model::weight_bytes(*input.draft, weights::WeightFormat::kBF16) +
        model::decoder_scratch_bytes(Device::kCpu, *input.draft->text, input.max_num_batched_tokens,
                                     input.max_num_seqs, 0);
    draft_page_bytes = kv_page_bytes(preset, *input.draft->text);
  }
  try {
    input.kv_cache_bytes = plan_kv_cache_bytes(preset, text, held_bytes + draft_bytes,
                                               input.memory_bytes, draft_page_bytes);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutOfMemory) throw;
    input.kv_cache_bytes = 0;  // the plan reports the reason
  }
}

bench::Roofline measure_host(const Context& context, const Preset& preset, const Machine& machine,
                             const bench::RooflineOptions& options) {
  // More threads than CPUs measure the scheduler of the system, not the memory.
  const int num_usable = std::min(num_threads(preset, machine), machine.num_cpus);
  ThreadPool pool(pipeline::plan_threads(num_usable).engine);
  Stream stream(context, pool);
  // Where little memory is left, less of it is read, and caches may raise the rate.
  constexpr std::int64_t kLeastBufferBytes = 1LL << 20;
  bench::RooflineOptions limited = options;
  limited.buffer_bytes =
      std::min(std::max(machine.memory_bytes / 8, kLeastBufferBytes), options.buffer_bytes);
  // Formats are compared by these rates, so each arithmetic is measured in several rounds, and a
  // disturbance by other processes in one of them does not count against one arithmetic alone.
  constexpr int kNumRounds = 3;
  limited.num_passes = (options.num_passes + kNumRounds - 1) / kNumRounds;
  bench::Roofline best = bench::measure_roofline(stream, limited);
  for (int round = 1; round < kNumRounds; ++round) {
    best = bench::best_of(best, bench::measure_roofline(stream, limited));
  }
  return best;
}

plan::Rates host_rates(const bench::Roofline& roofline, weights::WeightFormat format) {
  const bench::Peak peak = bench::peak_of(roofline, bench::operands_of(format));
  plan::Rates rates = {
      .bytes_per_s = roofline.read_bytes_per_s, .flops_per_s = peak.flops_per_s, .source = {}};
  std::string arithmetic(peak.arithmetic);
  if (plan::has_8_bit_activations(format) && arithmetic == roofline.arithmetic &&
      roofline.own_int8_flops_per_s > 0) {
    arithmetic += ", because 8-bit integers are not faster (" +
                  format_si(roofline.own_int8_flops_per_s) + "FLOP/s)";
  }
  rates.source =
      "measured here and now on " + counted(roofline.num_threads, "thread") + ", " + arithmetic;
  return rates;
}

}  // namespace caption::config
