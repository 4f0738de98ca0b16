// backend/buffer.h: owned, aligned memory on a device.
#pragma once

#include <cstddef>

#include "backend/device.h"

namespace caption {

// How the system should give the memory; advice that it may not follow, with the same contents.
enum class Paging {
  // In huge pages (2 MiB) from kHugeBufferBytes on: for what is written whole. Fewer misses of the
  // TLB where much memory is read once, as weights are.
  kHuge,
  // In the smallest pages there are, each when it is first written: for what may stay half empty.
  kSmall,
};

inline constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
inline constexpr std::size_t kHugeBufferBytes = 2 * kHugePageBytes;

// 64-byte aligned (a cache line, and an AVX-512 register); contents are uninitialised. From
// kHugeBufferBytes on a mapping of its own, aligned to kHugePageBytes: no memory is committed
// before it is touched, and all of it goes back to the system at the end. Moves, does not copy.
// Throws Error(kOutOfMemory) with the size asked for; kUnavailable for a missing device.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Device device, std::size_t size_bytes, Paging paging = Paging::kHuge);
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
