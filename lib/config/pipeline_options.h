// config/pipeline_options.h: converts a preset to the options of a pipeline.
#pragma once

#include <atomic>

#include "backend/machine.h"
#include "base/sha256.h"
#include "config/draft_reading.h"
#include "config/preset.h"
#include "model/caption_model.h"
#include "pipeline/pipeline.h"

namespace caption::config {

// A decoder on its device, for which pages are planned.
struct PlacedDecoder {
  Device device;
  std::int64_t memory_bytes = 0;  // the machine's memory; a GPU tells its own
  std::int64_t weight_bytes = 0;
  model::Decoder& decoder;
  // Borrowed, or null: the draft model, whose pages share the memory.
  model::CaptionModel* draft = nullptr;
};

// Memory for the KV pages of a model on its device: what weights and activations leave there, and
// with a draft model, the part of it that its own pages leave.
// Reserves the decoder's activations. Throws Error(kOutOfMemory) when nothing is left.
std::int64_t kv_cache_bytes(const Preset& preset, const Machine& machine,
                            model::CaptionModel& model, model::CaptionModel* draft = nullptr);
std::int64_t kv_cache_bytes(const Preset& preset, const PlacedDecoder& placed);

// Memory of the host for the evicted pages of each of `num_gpus` GPUs: engine.kv_host_bytes, and at
// most a quarter of the machine's memory for all of them; 0 without the prefix cache.
std::int64_t host_pages_bytes(const Preset& preset, const Machine& machine, int num_gpus);

// What a run has besides the model on its first device.
struct RunParts {
  int num_replicas = 1;
  model::CaptionModel* draft = nullptr;  // borrowed: the draft model, or none
  // Borrowed: what reads the captions for drafts; null: they are read now.
  DraftReading* draft_reading = nullptr;
  const std::atomic<bool>* cancelled = nullptr;
};

// Returns threads, reading, engine, adapters, sampling, stop strings and the system prompt. KV
// pages get the memory that the model's weights and activations leave. Reserves the decoder's
// activations, and those of the draft model, if there is one. Throws Error(kOutOfMemory) when no
// memory is left for pages, Error(kUsage) when sampling options contradict each other. The threads
// are for a run on RunParts::num_replicas devices. Throws as draft_options().
pipeline::Options pipeline_options(const Preset& preset, const Machine& machine,
                                   model::CaptionModel& model, const Sha256& model_hash,
                                   const RunParts& parts = {});

}  // namespace caption::config
