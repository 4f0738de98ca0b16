// bench/internal/kernel_cases.h: the operations that bench --kernels times, over random tensors of
// the extents of a model. Each function adds its rows to the timer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/internal/kernel_timer.h"
#include "model/blueprint.h"

namespace caption::bench {

void bench_text(KernelTimer& timer, const model::DecoderSpec& shape);
// Whether a tower encodes single frames of a fixed size, as bench_vision() needs.
bool takes_fixed_frames(const model::VisionSpec& shape);
void bench_vision(KernelTimer& timer, const model::VisionSpec& shape);

// Times a dense layer in every layout, for each number of tokens in `tokens`.
void bench_linear(KernelTimer& timer, const std::string& name, const model::LinearSpec& matrix,
                  const std::vector<std::int64_t>& tokens);
// Times linear_swiglu with a gate and an up matrix of the shape `matrix`.
void bench_swiglu(KernelTimer& timer, const model::LinearSpec& matrix,
                  const std::vector<std::int64_t>& tokens);

}  // namespace caption::bench
