#include "backend/device_runtime.h"
#include "backend/internal/cuda_probe.h"

namespace caption {

DeviceRuntime* device_runtime() { return nullptr; }

int internal::least_driver_version() { return 12000; }

}  // namespace caption
