// backend/context.h: what a model is opened for and computed with. A command makes a Context from
// its options and passes it on; no room reads the environment.
//
//   Context context{.cpu_tier = choose_cpu_tier(name), .num_threads = 4};
//   const auto model = model::open_model(context, folder, format);
//   ThreadPool pool(4);
//   Stream stream(context, pool);
//
// A value: copies describe the same device. Streams and memory belong to their users: each stage
// has a Stream, and each Tensor names its device.
#pragma once

#include <string>

#include "backend/cpu_tier.h"
#include "backend/device.h"

namespace caption {

struct Context {
  Device device = Device::kCpu;  // where weights, activations and KV pages are
  CpuTier cpu_tier = fastest_cpu_tier();
  int num_threads = 1;  // threads that load a model, before its streams exist
  // 10 * major + minor of the GPU's compute capability, as 90 of an H100; 0 without a GPU.
  int compute_capability = 0;

  // Names the arithmetic, "cpu amx": equal names give equal bits. The mirror's is the CPU's. On a
  // GPU the bits depend on how its tensor cores add, which changed with Hopper (arXiv:2512.07004),
  // and on Turing's, which lack bf16, weights of that format are f16.
  std::string arithmetic() const {
    if (!device.is_cuda()) return "cpu " + std::string(cpu_tier_name(cpu_tier));
    if (compute_capability >= 90) return "cuda hopper";
    const bool lacks_bf16 = compute_capability != 0 && compute_capability < 80;
    return lacks_bf16 ? "cuda turing" : "cuda ampere";
  }
};

}  // namespace caption
