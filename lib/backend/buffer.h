// backend/buffer.h: owned, aligned memory on a device.
#pragma once

#include <cstddef>

#include "backend/device.h"

namespace caption {

// 64-byte aligned (a cache line, and an AVX-512 register); contents are uninitialised. Moves, does
// not copy. Throws Error(kOutOfMemory) with the size asked for; kUnavailable for a missing device.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Device device, std::size_t size_bytes);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  std::byte* begin() const { return begin_; }
  std::size_t size_bytes() const { return size_bytes_; }
  Device device() const { return device_; }

 private:
  void free();

  std::byte* begin_ = nullptr;
  std::size_t size_bytes_ = 0;
  Device device_ = Device::kCpu;
};

}  // namespace caption
