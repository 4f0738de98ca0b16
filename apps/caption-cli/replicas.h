// apps/caption-cli/replicas.h: the model of a run on each of its devices.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/context.h"
#include "backend/machine.h"
#include "config/load_preset.h"
#include "model/caption_model.h"
#include "pipeline/pipeline.h"

namespace caption::cli {

// What the replicas are opened for.
struct ReplicaSource {
  const config::LoadedPreset& loaded;
  const Machine& machine;
  const std::vector<Context>& contexts;  // one per device of the run, >= 1
  const std::vector<model::Conversation>& conversations;
  const std::atomic<bool>* cancelled = nullptr;  // config::OpenChoices::cancelled
};

class Replicas {
 public:
  // Opens the model on each device but the first, on which it is open with these bytes for KV
  // pages. Throws as config::open_model(), and Error(kOutOfMemory) for a device without room for
  // the pages of a clip.
  Replicas(const ReplicaSource& source, std::unique_ptr<model::CaptionModel> first,
           std::int64_t kv_cache_bytes);

  const std::vector<pipeline::Replica>& get() const { return replicas_; }

 private:
  std::vector<std::unique_ptr<model::CaptionModel>> models_;
  std::vector<pipeline::Replica> replicas_;
};

// The names of the devices that the preset's model runs on: "GPU 1 (NVIDIA L4)", or "the CPU".
std::vector<std::string> device_names(const config::Preset& preset, const Machine& machine);

}  // namespace caption::cli
