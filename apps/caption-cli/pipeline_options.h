// pipeline_options.h: from a preset to what a pipeline is given.
#pragma once

#include "backend/machine.h"
#include "base/sha256.h"
#include "config/preset.h"
#include "model/caption_model.h"
#include "pipeline/pipeline.h"

namespace caption::cli {

// Threads, reading, engine, sampling and stop strings, with the model's own numbers taken into
// account: KV pages get what weights and activations leave. Reserves the decoder's activations.
// Throws Error(kOutOfMemory) when no pages are left, Error(kUsage) when the sampling does not go
// together.
pipeline::Options pipeline_options(const config::Preset& preset, const Machine& machine,
                                   model::CaptionModel& model, const Sha256& model_hash);

}  // namespace caption::cli
