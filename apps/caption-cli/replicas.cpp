#include "replicas.h"

#include <string>
#include <utility>

#include "base/join.h"
#include "base/log.h"
#include "config/devices.h"
#include "config/draft_model.h"
#include "config/pipeline_options.h"
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

void Replicas::add(const config::Preset& preset, OpenModel opened, std::int64_t kv_cache_bytes,
                   const std::string& name) {
  pipeline::Replica replica{
      .model = opened.model.get(), .kv_cache_bytes = kv_cache_bytes, .name = name};
  if (opened.draft != nullptr) {
    replica.draft = opened.draft.get();
    replica.draft_kv_cache_bytes = config::draft_kv_cache_bytes(
        preset, opened.model->decoder().spec(), kv_cache_bytes, opened.draft->decoder().spec());
  }
  replicas_.push_back(std::move(replica));
  models_.push_back(std::move(opened));
}

Replicas::Replicas(const ReplicaSource& source, OpenModel first, std::int64_t kv_cache_bytes) {
  const config::Preset& preset = source.loaded.preset;
  std::vector<std::string> names = device_names(preset, source.machine);
  names.resize(source.contexts.size());
  add(preset, std::move(first), kv_cache_bytes, names.front());
  for (std::size_t i = 1; i < source.contexts.size(); ++i) {
    const Context& context = source.contexts[i];
    const config::Locations& locations = source.loaded.locations;
    OpenModel opened;
    const config::OpenChoices choices = {.cancelled = source.cancelled};
    opened.model = config::open_model(context, preset, locations, choices);
    opened.draft = config::open_draft_model(context, preset, locations, *opened.model, choices);
    const std::int64_t bytes =
        config::kv_cache_bytes(preset, source.machine, *opened.model, opened.draft.get());
    config::require_fitting_pages(preset, *opened.model, opened.draft.get(), source.conversations,
                                  bytes);
    add(preset, std::move(opened), bytes, names[i]);
  }
  if (replicas_.size() == 1) return;
  log_info("run",
           "a copy of the model on each of " + join(names) + "; clips go to the one that has room");
}

}  // namespace caption::cli
