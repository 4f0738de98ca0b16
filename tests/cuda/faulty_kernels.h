// tests/cuda/faulty_kernels.h: pairs of kernels, of which one has a fault and the other has not.
#pragma once

#include <span>

#include "tests/support/cuda/emulator.h"

namespace caption::testing {

struct KernelPair {
  const char* name;
  cuda_emulator::Fault fault;
  // Launch with [256] f32 of initialised device memory.
  void (*launch_faulty)(float* memory);
  void (*launch_right)(float* memory);
};

std::span<const KernelPair> kernel_pairs();
// Pairs with products of warpgroups (faulty_products.cu).
std::span<const KernelPair> product_pairs();

}  // namespace caption::testing
