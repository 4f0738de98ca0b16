// backend/internal/cuda_probe.h: lists the devices of the CUDA driver, if there is one.
#pragma once

#include "backend/machine.h"

namespace caption::internal {

// Fills cuda_devices and cuda_status. Does not throw on a machine without CUDA: the runtime is
// linked statically and loads the driver at run time.
void probe_cuda(Machine& machine);

}  // namespace caption::internal
