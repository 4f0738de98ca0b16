#include "backend/machine.h"
#include "base/error.h"
#include "tests/gpu/checked_device.h"

namespace caption::testing {

struct CheckedDevice::State {};

CheckedDevice::CheckedDevice(int /*compute_capability*/) {
  const Machine machine = detect_machine();
  if (machine.cuda_devices.empty()) throw Error(ErrorCode::kUnavailable, machine.cuda_status);
  const CudaDevice& gpu = machine.cuda_devices.front();
  name_ = gpu.name;
  context_.device = Device::kCuda;
  context_.compute_capability = 10 * gpu.compute_major + gpu.compute_minor;
}

CheckedDevice::~CheckedDevice() = default;

std::string CheckedDevice::faults() const { return {}; }

}  // namespace caption::testing
