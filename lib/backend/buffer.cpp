#include "backend/buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <new>
#include <string>
#include <utility>

#include "backend/device_runtime.h"
#include "backend/mirror.h"
#include "base/error.h"
#include "base/units.h"

namespace caption {
namespace {

constexpr std::size_t kAlignmentBytes = 64;
// 48-bit pointers on x86-64 and AArch64 Linux leave a process at most this much address space.
constexpr std::size_t kAddressSpaceBytes = std::size_t{1} << 47;

std::string size_text(std::size_t size_bytes) {
  constexpr std::size_t kMost = std::numeric_limits<std::int64_t>::max();
  return format_bytes(static_cast<std::int64_t>(std::min(size_bytes, kMost)));
}

bool is_mapping(std::size_t size_bytes) { return size_bytes >= kHugeBufferBytes; }

std::size_t round_up(std::size_t size_bytes) {
  return (size_bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
}

// Returns null when the system refuses.
void* map(std::size_t size_bytes, Paging paging) {
  // Mapping one huge page more than needed guarantees an aligned range; the surplus is unmapped.
  const std::size_t mapped_bytes = size_bytes + kHugePageBytes;
  void* const mapped =
      ::mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* const first = static_cast<std::byte*>(mapped);
  const std::size_t before =
      (kHugePageBytes - reinterpret_cast<std::uintptr_t>(first) % kHugePageBytes) % kHugePageBytes;
  const std::size_t after = mapped_bytes - before - size_bytes;
  if (before > 0) ::munmap(first, before);
  if (after > 0) ::munmap(first + before + size_bytes, after);
  // Has no effect where the policy is "never" (/sys/kernel/mm/transparent_hugepage/enabled) or the
  // kernel does not know this advice.
  ::madvise(first + before, size_bytes, paging == Paging::kHuge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  return first + before;
}

void* allocate(Device device, std::size_t size_bytes, Paging paging) {
  if (size_bytes > kAddressSpaceBytes) return nullptr;
  if (device == Device::kMirror) return allocate_mirror(size_bytes);
  if (device.is_cuda()) return require_device_runtime(device).allocate(size_bytes);
  if (is_mapping(size_bytes)) return map(round_up(size_bytes), paging);
  return ::operator new (size_bytes, std::align_val_t{kAlignmentBytes}, std::nothrow);
}

[[noreturn]] void throw_out_of_memory(Device device, std::size_t size_bytes) {
  if (!device.is_cuda()) {
    throw Error(ErrorCode::kOutOfMemory, "buffer: the system refused " + size_text(size_bytes) +
                                             " of memory; use a smaller model, batch or KV cache");
  }
  const DeviceMemory memory = require_device_runtime(device).memory();
  throw Error(ErrorCode::kOutOfMemory,
              "buffer: the GPU has no " + size_text(size_bytes) + " left (" +
                  format_bytes(memory.free_bytes) + " of " + format_bytes(memory.total_bytes) +
                  " free); lower memory_utilization, the batch or the KV cache, or use a smaller "
                  "model");
}

}  // namespace

Buffer::Buffer(Device device, std::size_t size_bytes, Paging paging) : device_(device) {
  if (device.is_cuda()) require_device_runtime(device);
  if (size_bytes == 0) return;
  void* const begin = allocate(device, size_bytes, paging);
  if (begin == nullptr) throw_out_of_memory(device, size_bytes);
  begin_ = static_cast<std::byte*>(begin);
  size_bytes_ = size_bytes;
}

Buffer Buffer::staging(Device device, std::size_t size_bytes) {
  if (!device.is_cuda()) return Buffer(Device::kCpu, size_bytes);
  Buffer buffer;
  if (size_bytes == 0) return buffer;
  buffer.begin_ = require_device_runtime(device).allocate_pinned(size_bytes);
  if (buffer.begin_ == nullptr) throw_out_of_memory(Device::kCpu, size_bytes);
  buffer.size_bytes_ = size_bytes;
  buffer.pinned_by_ = device;
  return buffer;
}

Buffer Buffer::part_of(std::shared_ptr<const Buffer> whole, std::size_t first_byte,
                       std::size_t size_bytes) {
  CAPTION_CHECK(whole->device() == Device::kCpu && first_byte <= whole->size_bytes() &&
                    size_bytes <= whole->size_bytes() - first_byte,
                "a part outside a buffer of the host");
  Buffer buffer;
  buffer.begin_ = whole->begin() + first_byte;
  buffer.size_bytes_ = size_bytes;
  buffer.whole_ = std::move(whole);
  return buffer;
}

Buffer::~Buffer() { free(); }

Buffer::Buffer(Buffer&& other) noexcept
    : begin_(std::exchange(other.begin_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      device_(other.device_),
      pinned_by_(std::exchange(other.pinned_by_, Device::kCpu)),
      whole_(std::move(other.whole_)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    free();
    begin_ = std::exchange(other.begin_, nullptr);
    size_bytes_ = std::exchange(other.size_bytes_, 0);
    device_ = other.device_;
    pinned_by_ = std::exchange(other.pinned_by_, Device::kCpu);
    whole_ = std::move(other.whole_);
  }
  return *this;
}

void Buffer::free() {
  if (begin_ == nullptr) return;
  if (whole_ != nullptr) {
    whole_.reset();
  } else if (device_ == Device::kMirror) {
    free_mirror(begin_, size_bytes_);
  } else if (device_.is_cuda()) {
    releasing_runtime(device_).free(begin_);
  } else if (pinned_by_.is_cuda()) {
    releasing_runtime(pinned_by_).free_pinned(begin_);
  } else if (is_mapping(size_bytes_)) {
    ::munmap(begin_, round_up(size_bytes_));
  } else {
    ::operator delete (begin_, std::align_val_t{kAlignmentBytes});
  }
  begin_ = nullptr;
  size_bytes_ = 0;
  pinned_by_ = Device::kCpu;
}

}  // namespace caption
