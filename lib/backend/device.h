// backend/device.h: where memory lives and work runs.
#pragma once

#include <string_view>
#include <type_traits>

namespace caption {

enum class Device { kCpu, kCuda };

// Tags: a kernel has one overload of its work per device (see backend/dispatch.h).
using Cpu = std::integral_constant<Device, Device::kCpu>;
using Cuda = std::integral_constant<Device, Device::kCuda>;

constexpr std::string_view device_name(Device device) {
  return device == Device::kCpu ? "cpu" : "cuda";
}

}  // namespace caption
