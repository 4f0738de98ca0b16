// backend/device.h: the devices that hold memory and run kernels.
#pragma once

#include <string_view>
#include <type_traits>

namespace caption {

enum class Device {
  kCpu,
  kCuda,
  // The CPU with separate memory, which only kernels and copies can access (backend/mirror.h): a
  // device for tests, on which a hidden access of the host fails on any machine.
  kMirror,
};

// Tag types: every kernel has one overload of its implementation per kind of processor
// (backend/dispatch.h).
using Cpu = std::integral_constant<Device, Device::kCpu>;
using Cuda = std::integral_constant<Device, Device::kCuda>;

constexpr std::string_view device_name(Device device) {
  switch (device) {
    case Device::kCpu: return "cpu";
    case Device::kCuda: return "cuda";
    case Device::kMirror: return "mirror";
  }
  return "?";
}

}  // namespace caption
