// tests/gpu/checked_device.h: the GPU whose kernels are checked: the machine's first one, or the
// emulator, by the file that is linked (gpu_device.cpp or emulated_device.cpp).
#pragma once

#include <memory>
#include <string>

#include "backend/context.h"

namespace caption::testing {

class CheckedDevice {
 public:
  // `compute_capability` is that of the GPU to be emulated. Throws Error(kUnavailable) with the
  // reason where there is no GPU.
  explicit CheckedDevice(int compute_capability);
  ~CheckedDevice();
  CheckedDevice(const CheckedDevice&) = delete;
  CheckedDevice& operator=(const CheckedDevice&) = delete;

  const Context& context() const { return context_; }
  const std::string& name() const { return name_; }
  bool is_emulated() const { return is_emulated_; }
  // What the emulator found wrong so far; empty on a GPU.
  std::string faults() const;

 private:
  struct State;
  Context context_;
  std::string name_;
  bool is_emulated_ = false;
  std::unique_ptr<State> state_;
};

}  // namespace caption::testing
