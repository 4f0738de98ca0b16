#include "config/pipeline_options.h"

#include <algorithm>

#include "backend/device_runtime.h"
#include "config/draft_captions.h"
#include "config/identity.h"
#include "config/resolve.h"
#include "pipeline/threads.h"
#include "plan/plan.h"
#include "scheduler/step_limits.h"

namespace caption::config {
namespace {

// Pinned memory cannot be taken back while the run lasts: that of evicted pages is at most this
// part of the machine's, 1 / kHostPagesShare.
constexpr std::int64_t kHostPagesShare = 4;

// The memory in which KV pages are placed, and how much of it is taken.
struct MemoryUse {
  std::int64_t held_bytes = 0;
  std::int64_t total_bytes = 0;
};

// On a GPU other processes and the CUDA context count, too.
MemoryUse memory_use(const PlacedDecoder& placed) {
  if (!placed.device.is_cuda()) {
    const std::int64_t draft_bytes =
        placed.draft == nullptr
            ? 0
            : placed.draft->weight_bytes() + placed.draft->decoder().scratch_bytes();
    return {.held_bytes = placed.weight_bytes + placed.decoder.scratch_bytes() + draft_bytes,
            .total_bytes = placed.memory_bytes};
  }
  const DeviceMemory memory = require_device_runtime(placed.device).memory();
  return {.held_bytes = memory.total_bytes - memory.free_bytes, .total_bytes = memory.total_bytes};
}

}  // namespace

std::int64_t kv_cache_bytes(const Preset& preset, const PlacedDecoder& placed) {
  const std::int64_t num_rows =
      scheduler::StepLimits{
          .max_num_seqs = preset.engine.max_num_seqs,
          .max_num_batched_tokens = preset.engine.max_num_batched_tokens,
          .max_drafts = max_drafts(preset),
          .max_copied_tokens = max_copied_tokens(preset, placed.decoder.spec().vocab)}
          .most_logit_rows();
  placed.decoder.reserve(preset.engine.max_num_batched_tokens, num_rows);
  if (placed.draft != nullptr) {
    placed.draft->decoder().reserve(preset.engine.max_num_batched_tokens,
                                    preset.engine.max_num_seqs);
  }
  MemoryUse memory = memory_use(placed);
  if (placed.device.is_cuda()) {  // what the engine reserves beside the pages
    memory.held_bytes +=
        plan::card_bytes(placed.decoder.spec(), preset.engine.max_num_batched_tokens, num_rows,
                         kv_dtype(preset.quantization))
            .total();
    if (placed.draft != nullptr) {
      memory.held_bytes +=
          plan::card_bytes(placed.draft->decoder().spec(), preset.engine.max_num_batched_tokens,
                           preset.engine.max_num_seqs, kv_dtype(preset.quantization))
              .total();
    }
  }
  const std::int64_t draft_page_bytes =
      placed.draft == nullptr ? 0 : kv_page_bytes(preset, placed.draft->decoder().spec());
  const model::DecoderSpec& spec = placed.decoder.spec();
  memory.held_bytes += guess_page_bytes(preset, spec);
  const std::int64_t bytes =
      plan_kv_cache_bytes(preset, spec, memory.held_bytes, memory.total_bytes, draft_page_bytes);
  if (draft_page_bytes == 0) return bytes;
  const std::int64_t page_bytes = kv_page_bytes(preset, spec);
  return bytes / (page_bytes + draft_page_bytes) * page_bytes;
}

std::int64_t kv_cache_bytes(const Preset& preset, const Machine& machine,
                            model::CaptionModel& model, model::CaptionModel* draft) {
  return kv_cache_bytes(preset, {.device = model.context().device,
                                 .memory_bytes = machine.memory_bytes,
                                 .weight_bytes = model.weight_bytes(),
                                 .decoder = model.decoder(),
                                 .draft = draft});
}

std::int64_t host_pages_bytes(const Preset& preset, const Machine& machine, int num_gpus) {
  if (!preset.engine.prefix_cache) return 0;
  return std::min(preset.engine.kv_host_bytes, machine.memory_bytes / kHostPagesShare / num_gpus);
}

pipeline::Options pipeline_options(const Preset& preset, const Machine& machine,
                                   model::CaptionModel& model, const Sha256& model_hash,
                                   const RunParts& parts) {
  pipeline::Options options;
  options.threads = pipeline::plan_threads(num_threads(preset, machine), parts.num_replicas);
  options.read = read_options(preset);
  options.engine = engine_options(model.context(), preset,
                                  kv_cache_bytes(preset, machine, model, parts.draft), model_hash);
  if (model.context().device.is_cuda()) {
    options.engine.host_pages_bytes = host_pages_bytes(preset, machine, parts.num_replicas);
  }
  options.drafts = parts.draft_reading == nullptr ? draft_options(preset, parts.cancelled)
                                                  : parts.draft_reading->take(parts.cancelled);
  options.vision_cache = {.folder = preset.engine.kv_cache_dir,
                          .max_bytes = preset.engine.kv_cache_dir_bytes,
                          .identity = vision_identity(model.context(), preset, model_hash)};
  for (const model::NamedAdapter& adapter : model.adapters()) {
    options.adapters.push_back(
        {.name = adapter.name,
         .page_identity = adapter_page_identity(options.engine.page_identity, adapter.content)});
  }
  options.sampling = sampling_params(preset);
  options.stop_strings = preset.generation.stop;
  options.system = preset.generation.system;
  require_valid_sampling(preset, model);
  return options;
}

}  // namespace caption::config
