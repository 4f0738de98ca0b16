#include "replicas.h"

#include <string>
#include <utility>

#include "base/join.h"
#include "base/log.h"
#include "config/devices.h"
#include "config/pipeline_options.h"
#include "config/prompt_tokens.h"
#include "config/resolve.h"

namespace caption::cli {

std::vector<std::string> device_names(const config::Preset& preset, const Machine& machine) {
  if (preset.device.type != config::DeviceType::kCuda) return {"the CPU"};
  std::vector<std::string> names;
  for (const CudaDevice& gpu : config::chosen_gpus(preset, machine)) {
    names.push_back(config::gpu_name(gpu));
  }
  return names;
}

Replicas::Replicas(const ReplicaSource& source, std::unique_ptr<model::CaptionModel> first,
                   std::int64_t kv_cache_bytes) {
  const config::Preset& preset = source.loaded.preset;
  std::vector<std::string> names = device_names(preset, source.machine);
  names.resize(source.contexts.size());
  replicas_.push_back(
      {.model = first.get(), .kv_cache_bytes = kv_cache_bytes, .name = names.front()});
  models_.push_back(std::move(first));
  for (std::size_t i = 1; i < source.contexts.size(); ++i) {
    models_.push_back(config::open_model(source.contexts[i], preset, source.loaded.locations,
                                         {.cancelled = source.cancelled}));
    model::CaptionModel& model = *models_.back();
    const std::int64_t bytes = config::kv_cache_bytes(preset, source.machine, model);
    config::require_fitting_pages(preset, model, source.conversations, bytes);
    replicas_.push_back({.model = &model, .kv_cache_bytes = bytes, .name = names[i]});
  }
  if (replicas_.size() == 1) return;
  log_info("run",
           "a copy of the model on each of " + join(names) + "; clips go to the one that has room");
}

}  // namespace caption::cli
