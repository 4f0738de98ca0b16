// apps/caption-cli/bench_steps.h: `caption-cli bench --kernels` on a GPU: the steps of a decoder
// with random weights, each operation beside its prediction.
#pragma once

#include <string>

#include "bench_device.h"
#include "bench_flags.h"
#include "config/preset.h"
#include "model/decoder.h"

namespace caption::cli {

// Returns the exit code. `name` is that of the shape in the report. Throws Error(kOutOfMemory) when
// the weights or the pages of a step do not fit; Error(kUnavailable) when the GPU fails.
int bench_gpu_steps(const BenchFlags& flags, const BenchDevice& device,
                    const config::Preset& preset, const std::string& name,
                    const model::DecoderSpec& shape);

}  // namespace caption::cli
