#include "backend/buffer.h"

#include <new>
#include <string>
#include <utility>

#include "backend/dispatch.h"
#include "base/error.h"

namespace caption {
namespace {

constexpr std::size_t kAlignmentBytes = 64;
// No process on x86-64 or AArch64 Linux can address more with 48-bit pointers.
constexpr std::size_t kAddressSpaceBytes = std::size_t{1} << 47;

}  // namespace

Buffer::Buffer(Device device, std::size_t size_bytes) : device_(device) {
  if (device != Device::kCpu) throw_device_unavailable(device);
  if (size_bytes == 0) return;
  void* begin = nullptr;
  if (size_bytes <= kAddressSpaceBytes) {
    begin = ::operator new (size_bytes, std::align_val_t{kAlignmentBytes}, std::nothrow);
  }
  if (begin == nullptr) {
    throw Error(ErrorCode::kOutOfMemory,
                "buffer: the system refused " + std::to_string(size_bytes) +
                    " bytes of memory; use a smaller model, batch or KV cache");
  }
  begin_ = static_cast<std::byte*>(begin);
  size_bytes_ = size_bytes;
}

Buffer::~Buffer() { free(); }

Buffer::Buffer(Buffer&& other) noexcept
    : begin_(std::exchange(other.begin_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      device_(other.device_) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    free();
    begin_ = std::exchange(other.begin_, nullptr);
    size_bytes_ = std::exchange(other.size_bytes_, 0);
    device_ = other.device_;
  }
  return *this;
}

void Buffer::free() {
  if (begin_ != nullptr) ::operator delete (begin_, std::align_val_t{kAlignmentBytes});
  begin_ = nullptr;
  size_bytes_ = 0;
}

}  // namespace caption
