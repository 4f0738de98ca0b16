// tensor/copy.h: copies between devices, and tensors that the host and a device share.
#pragma once

#include <cstdint>

#include "backend/stream.h"
#include "tensor/tensor.h"

namespace caption {

// Copies `from` to `to`, of the same dtype and shape, on the same or different devices; the first
// axes may be strided. Ordered with the stream's work; the host may read the result, and change or
// free what was copied, after Stream::synchronize(). Throws Error(kInternal) when dtypes or shapes
// differ.
void copy(Stream& stream, ConstView from, View to);

// Returns a dense copy on `device`, which is complete when this returns.
Tensor copy_to(Stream& stream, Device device, ConstView from);

// A tensor on a device with a copy on the host, for what one writes and the other reads in every
// step. On the CPU both are the same memory and nothing is copied.
class StagedTensor {
 public:
  StagedTensor(Device device, DType dtype, const Shape& shape)
      : on_device_(dtype, shape, device),
        on_host_(device == Device::kCpu ? Tensor() : Tensor::staging(dtype, shape, device)) {}

  const Shape& shape() const { return on_device_.shape(); }
  View device() { return on_device_.view(); }
  View host() { return on_host_.empty() ? on_device_.view() : on_host_.view(); }

  // Copies the first `num_rows` of the first axis from the host to the device.
  void upload(Stream& stream, std::int64_t num_rows) {
    if (on_host_.empty()) return;
    copy(stream, host().rows(0, num_rows), device().rows(0, num_rows));
  }
  // Copies rows [first, first + count) from the device to the host, which may read them after
  // Stream::synchronize().
  void download(Stream& stream, std::int64_t first, std::int64_t count) {
    if (on_host_.empty()) return;
    copy(stream, device().rows(first, count), host().rows(first, count));
  }

 private:
  Tensor on_device_;
  Tensor on_host_;  // empty on the CPU
};

}  // namespace caption
