#include "config/pipeline_options.h"

#include "config/identity.h"
#include "config/resolve.h"
#include "pipeline/threads.h"
#include "sampling/sampler.h"

namespace caption::config {

pipeline::Options pipeline_options(const Preset& preset, const Machine& machine,
                                   model::CaptionModel& model, const Sha256& model_hash) {
  pipeline::Options options;
  options.threads = pipeline::plan_threads(num_threads(preset, machine));
  options.read = read_options(preset);
  model::Decoder& decoder = model.decoder();
  decoder.reserve(preset.engine.max_num_batched_tokens, preset.engine.max_num_seqs);
  const std::int64_t held_bytes = model.weight_bytes() + decoder.scratch_bytes();
  options.engine = engine_options(
      model.context(), preset,
      plan_kv_cache_bytes(preset, decoder.spec(), held_bytes, machine.memory_bytes), model_hash);
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
  sampling::validate(options.sampling, decoder.spec().vocab);
  return options;
}

}  // namespace caption::config
