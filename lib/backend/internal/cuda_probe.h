// backend/internal/cuda_probe.h: lists the devices of the CUDA driver, if there is one.
#pragma once

#include "backend/machine.h"

namespace caption::internal {

// The CUDA version of the oldest driver that this build can use, as cuDriverGetVersion() counts:
// 1000 * major + 10 * minor. Each implementation of backend/device_runtime.h has its own; without
// CUDA kernels it is that of CUDA 12.0.
int least_driver_version();

// Names of the driver's libraries, as dlopen() takes them, and what the driver must be.
struct CudaLibraries {
  const char* driver = "libcuda.so.1";
  const char* nvml = "libnvidia-ml.so.1";
  int least_version = least_driver_version();
};

// Fills cuda_devices and cuda_status. Does not throw: on a machine without a driver, or with one
// that cannot be used, cuda_devices stays empty and cuda_status says why.
void probe_cuda(Machine& machine, const CudaLibraries& libraries = {});

}  // namespace caption::internal
