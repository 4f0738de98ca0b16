// tests/cuda/measured_kernels.h: kernels whose cost, or product, is known by hand.
#pragma once

#include <cstdint>

#include "tests/support/cuda/tensor_core.h"

namespace caption::testing {

// One warp loads size_bytes per lane, `stride_bytes` apart, from `memory`.
void launch_global_loads(const float* memory, int size_bytes, int stride_bytes);
// One warp stores to shared memory in the same way; stride_bytes is at most 132.
void launch_shared_stores(int size_bytes, int stride_bytes);
// Lane i of a warp loads i + 1 numbers of 4 bytes, one after another, 32 numbers apart.
void launch_ragged_loads(const float* memory);

// Copies 64 numbers as a launch that begins early, reading them before it waits for the launches
// before it, or after that.
void launch_early_copy(void* queue, const float* from, float* to, bool reads_before_waiting);

// c [16, 8] += a [16, 16] * b [16, 8] of 16-bit elements, by one warp. Through shared memory and
// ldmatrix: a row by row, b [k][n] transposed on the way.
void launch_product(cuda_emulator::HalfType type, const std::uint16_t* a, const std::uint16_t* b,
                    float* c);

}  // namespace caption::testing
