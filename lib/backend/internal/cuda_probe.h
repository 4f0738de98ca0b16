// backend/internal/cuda_probe.h: lists the devices of the CUDA driver, if there is one.
#pragma once

#include "backend/machine.h"

namespace caption::internal {

// Names of the driver's libraries, as dlopen() takes them.
struct CudaLibraries {
  const char* driver = "libcuda.so.1";
  const char* nvml = "libnvidia-ml.so.1";
};

// Fills cuda_devices and cuda_status. Does not throw: on a machine without a driver, or with one
// that cannot be used, cuda_devices stays empty and cuda_status says why.
void probe_cuda(Machine& machine, const CudaLibraries& libraries = {});

}  // namespace caption::internal
