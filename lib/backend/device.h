// backend/device.h: the devices that hold memory and run kernels.
#pragma once

#include <string_view>
#include <type_traits>

namespace caption {

enum class Device { kCpu, kCuda };

// Tag types: every kernel has one overload of its implementation per device (backend/dispatch.h).
using Cpu = std::integral_constant<Device, Device::kCpu>;
using Cuda = std::integral_constant<Device, Device::kCuda>;

constexpr std::string_view device_name(Device device) {
  return device == Device::kCpu ? "cpu" : "cuda";
}

}  // namespace caption
