// apps/caption-cli/pipeline_options.h: converts a preset to the options of a pipeline.
#pragma once

#include "backend/machine.h"
#include "base/sha256.h"
#include "config/preset.h"
#include "model/caption_model.h"
#include "pipeline/pipeline.h"

namespace caption::config {

// Returns threads, reading, engine, adapters, sampling, stop strings and the system prompt. KV
// pages get the memory that the model's weights and activations leave. Reserves the decoder's
// activations. Throws Error(kOutOfMemory) when no memory is left for pages, Error(kUsage) when
// sampling options contradict each other.
pipeline::Options pipeline_options(const Preset& preset, const Machine& machine,
                                   model::CaptionModel& model, const Sha256& model_hash);

}  // namespace caption::config
