// backend/buffer.h: owned, aligned memory on a device.
#pragma once

#include <cstddef>
#include <memory>

#include "backend/device.h"

namespace caption {

// Page size that the system is advised to use; it may ignore the advice, which changes no contents.
enum class Paging {
  // Huge pages (2 MiB) for buffers of at least kHugeBufferBytes: fewer TLB misses where much memory
  // is read in sequence, as weights are. For memory that is written completely.
  kHuge,
  // The smallest pages, committed one by one when first written: for memory that may stay partly
  // unused.
  kSmall,
};

inline constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
inline constexpr std::size_t kHugeBufferBytes = 2 * kHugePageBytes;

// Memory aligned to 64 bytes (a cache line, and an AVX-512 register), uninitialised. A buffer of at
// least kHugeBufferBytes is a separate mapping aligned to kHugePageBytes: no memory is committed
// before it is touched, and all of it is returned to the system on destruction. Memory of the
// mirror is as backend/mirror.h describes; memory of a GPU is freed when all work of the GPU is
// done. Moves, does not copy. Throws Error(kOutOfMemory) with the size requested; kUnavailable for
// a device that this build lacks.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Device device, std::size_t size_bytes, Paging paging = Paging::kHuge);
  // Host memory for copies to and from `device`: page-locked where that is a GPU, which then copies
  // it while the host goes on; ordinary memory for the CPU and the mirror.
  static Buffer staging(Device device, std::size_t size_bytes);
  // A part of a buffer of the host, which lives as long as it has parts.
  static Buffer part_of(std::shared_ptr<const Buffer> whole, std::size_t first_byte,
                        std::size_t size_bytes);
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
  Device pinned_by_ = Device::kCpu;  // a GPU: its runtime allocated this memory of the host
  std::shared_ptr<const Buffer> whole_;  // what the memory is a part of, if it is
};

}  // namespace caption
