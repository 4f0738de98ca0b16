#include "backend/internal/cuda_probe.h"

#include <cuda_runtime_api.h>

#include <string>

#include "base/counted.h"

namespace caption::internal {
namespace {

std::string describe(cudaError_t error) {
  const std::string cause = std::string(cudaGetErrorString(error)) + " (CUDA error " +
                            std::to_string(static_cast<int>(error)) + ")";
  switch (error) {
    case cudaErrorInsufficientDriver: return "no CUDA: no driver, or one that is too old: " + cause;
    case cudaErrorStubLibrary: return "no CUDA: libcuda is the toolkit's stub: " + cause;
    case cudaErrorNoDevice: return "no CUDA: the driver sees no device: " + cause;
    default: return "CUDA failed to start: " + cause;
  }
}

}  // namespace

void probe_cuda(Machine& machine) {
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  if (result != cudaSuccess) {
    machine.cuda_status = describe(result);
    return;
  }
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp properties{};
    const cudaError_t asked = cudaGetDeviceProperties(&properties, index);
    if (asked != cudaSuccess) {
      machine.cuda_status = describe(asked);
      return;
    }
    machine.cuda_devices.push_back(
        {.name = properties.name,
         .compute_major = properties.major,
         .compute_minor = properties.minor,
         .memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem)});
  }
  machine.cuda_status = counted(count, "CUDA device") + " found; " +
                        (has_cuda_kernels() ? "this build has CUDA kernels"
                                            : "this build has no CUDA kernels and runs on the CPU");
}

}  // namespace caption::internal
