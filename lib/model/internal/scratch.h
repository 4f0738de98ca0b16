// model/internal/scratch.h: activations that live from one kernel to the next.
#pragma once

#include "tensor/tensor.h"

namespace caption::model {

// Device memory of one dtype that grows to the largest shape requested; contents are not kept
// between calls.
class Scratch {
 public:
  explicit Scratch(Device device, DType dtype = DType::kF32) : device_(device), dtype_(dtype) {}

  View view(const Shape& shape) {
    const std::int64_t count = shape.num_elements();
    if (buffer_.empty() || buffer_.num_elements() < count) {
      buffer_ = Tensor(dtype_, {count}, device_);
    }
    return View(buffer_.view().raw(), dtype_, shape, device_);
  }
  std::int64_t size_bytes() const { return static_cast<std::int64_t>(buffer_.size_bytes()); }

 private:
  Device device_;
  DType dtype_;
  Tensor buffer_;
};

}  // namespace caption::model
