#include "backend/dispatch.h"

#include <string>

#include "backend/device_runtime.h"
#include "backend/machine.h"
#include "base/error.h"

namespace caption {

void throw_device_unavailable(Device device) {
  throw Error(ErrorCode::kUnavailable, std::string(device_name(device)) + ": this build has no " +
                                           (device == Device::kCuda ? "CUDA" : "such") +
                                           " kernels; run on the device \"cpu\"");
}

DeviceRuntime& require_device_runtime() {
  DeviceRuntime* const runtime = device_runtime();
  if (runtime == nullptr) throw_device_unavailable(Device::kCuda);
  return *runtime;
}

bool has_cuda_kernels() { return device_runtime() != nullptr; }

}  // namespace caption
