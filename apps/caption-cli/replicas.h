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

// A model on a device, and its draft model or null.
struct OpenModel {
  std::unique_ptr<model::CaptionModel> model;
  std::unique_ptr<model::CaptionModel> draft;
};

class Replicas {
 public:
  // Opens the models on each device but the first, on which they are open with these bytes for the
  // model's KV pages. Throws as config::open_model() and config::open_draft_model(), and
  // Error(kOutOfMemory) for a device without room for the pages of a clip.
  Replicas(const ReplicaSource& source, OpenModel first, std::int64_t kv_cache_bytes);

  const std::vector<pipeline::Replica>& get() const { return replicas_; }

 private:
  void add(const config::Preset& preset, OpenModel opened, std::int64_t kv_cache_bytes,
           const std::string& name);

  std::vector<OpenModel> models_;
  std::vector<pipeline::Replica> replicas_;
};

// The names of the devices that the preset's model runs on: "GPU 1 (NVIDIA L4)", or "the CPU".
std::vector<std::string> device_names(const config::Preset& preset, const Machine& machine);

}  // namespace caption::cli
