// backend/device.h: the devices that hold memory and run kernels.
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>

namespace caption {

enum class DeviceKind : std::uint8_t {
  kCpu,
  kCuda,
  // The CPU with separate memory, which only kernels and copies can access (backend/mirror.h): a
  // device for tests, on which a hidden access of the host fails on any machine.
  kMirror,
};

// A value: the CPU, the mirror, or one of the machine's GPUs. Two GPUs are two devices: an
// operation on one takes no tensor that lies on the other.
class Device {
 public:
  static const Device kCpu;
  static const Device kCuda;  // the first GPU
  static const Device kMirror;
  // The GPU with this number, 0 being the first (Machine::cuda_devices).
  static constexpr Device cuda(int ordinal) { return Device(DeviceKind::kCuda, ordinal); }

  constexpr DeviceKind kind() const { return kind_; }
  constexpr bool is_cuda() const { return kind_ == DeviceKind::kCuda; }
  constexpr int ordinal() const { return ordinal_; }  // 0 unless it is a GPU

  constexpr bool operator==(const Device&) const = default;

 private:
  explicit constexpr Device(DeviceKind kind, int ordinal = 0)
      : kind_(kind), ordinal_(static_cast<std::int16_t>(ordinal)) {}

  DeviceKind kind_;
  std::int16_t ordinal_;
};

inline constexpr Device Device::kCpu{DeviceKind::kCpu};
inline constexpr Device Device::kCuda{DeviceKind::kCuda};
inline constexpr Device Device::kMirror{DeviceKind::kMirror};

// Tag types: every kernel has one overload of its implementation per kind of processor
// (backend/dispatch.h).
using Cpu = std::integral_constant<DeviceKind, DeviceKind::kCpu>;
using Cuda = std::integral_constant<DeviceKind, DeviceKind::kCuda>;

constexpr std::string_view device_name(Device device) {
  switch (device.kind()) {
    case DeviceKind::kCpu: return "cpu";
    case DeviceKind::kCuda: return "cuda";
    case DeviceKind::kMirror: return "mirror";
  }
  return "?";
}

}  // namespace caption
