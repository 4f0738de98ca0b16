// backend/internal/cuda_probe.h: asks the CUDA driver, if there is one, for its devices.
#pragma once

#include "backend/machine.h"

namespace caption::internal {

// Fills cuda_devices and cuda_status. Never throws for a machine without CUDA: the runtime is
// linked statically and finds the driver on its own.
void probe_cuda(Machine& machine);

}  // namespace caption::internal
