#include "backend/dispatch.h"

#include <exception>
#include <string>

#include "backend/device_runtime.h"
#include "backend/machine.h"
#include "base/error.h"

namespace caption {

void throw_device_unavailable(Device device) {
  throw Error(ErrorCode::kUnavailable, std::string(device_name(device)) + ": this build has no " +
                                           (device.is_cuda() ? "CUDA" : "such") +
                                           " kernels; run on the device \"cpu\"");
}

DeviceRuntime& require_device_runtime(Device device) {
  DeviceRuntime* const runtime = device_runtime();
  if (runtime == nullptr || !device.is_cuda()) throw_device_unavailable(device);
  runtime->use(device.ordinal());
  return *runtime;
}

DeviceRuntime& releasing_runtime(Device device) noexcept {
  DeviceRuntime& runtime = *device_runtime();
  try {
    runtime.use(device.ordinal());
  } catch (const std::exception&) {
    // The GPU is lost, and so is what was to be released.
  }
  return runtime;
}

bool has_cuda_kernels() { return device_runtime() != nullptr; }

}  // namespace caption
