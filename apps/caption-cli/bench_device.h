// apps/caption-cli/bench_device.h: the device that `caption-cli bench` measures.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "backend/context.h"
#include "backend/machine.h"
#include "bench_flags.h"
#include "config/preset.h"
#include "tensor/dtype.h"
#include "weights/format.h"

namespace caption::cli {

struct BenchDevice {
  Context context;
  std::int64_t memory_bytes = 0;  // size of the memory that holds weights and pages
  std::string description;        // "2 threads, avx512", "GPU 0 (NVIDIA H200)"
  std::optional<CudaDevice> gpu;
};

// The device of the preset. Throws Error(kUsage) for several GPUs, and for what is not measured on
// a GPU; Error(kUnavailable) for a GPU that is not here, or that this build has no kernels for; the
// errors of choose_cpu_tier(). `has_decoder` as in check_flags().
BenchDevice choose_bench_device(const BenchFlags& flags, bool has_decoder,
                                const config::Preset& preset, const Machine& machine,
                                const std::string& cpu_tier);

// Returns "bf16 weights, int8 KV, 2 threads, avx512"; without `pages`, no KV.
std::string describe_setting(weights::WeightFormat weights, std::optional<DType> pages,
                             const BenchDevice& device);

}  // namespace caption::cli
