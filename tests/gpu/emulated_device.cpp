#include <cstdlib>

#include "tests/gpu/checked_device.h"
#include "tests/support/cuda/emulator.h"

namespace caption::testing {

struct CheckedDevice::State {
  explicit State(const cuda_emulator::Options& options) : emulation(options) {}
  cuda_emulator::Emulation emulation;
};

CheckedDevice::CheckedDevice(int compute_capability) : name_("the emulator"), is_emulated_(true) {
  const char* const seed = std::getenv("CAPTION_EMULATOR_SEED");
  const cuda_emulator::Options options{
      .seed = seed == nullptr ? 0 : std::strtoull(seed, nullptr, 10),
      .sums = compute_capability >= 90 ? cuda_emulator::TensorCoreSums::kHopper
                                       : cuda_emulator::TensorCoreSums::kAmpere};
  context_.device = Device::kCuda;
  context_.compute_capability = compute_capability;
  state_ = std::make_unique<State>(options);
}

CheckedDevice::~CheckedDevice() = default;

std::string CheckedDevice::faults() const { return state_->emulation.report().describe_faults(); }

}  // namespace caption::testing
