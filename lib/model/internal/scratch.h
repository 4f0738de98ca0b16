// model/internal/scratch.h: activations that live from one kernel to the next.
#pragma once

#include "tensor/tensor.h"

namespace caption::model {

// f32 memory of the largest shape asked for so far; nothing is kept between calls.
class Scratch {
 public:
  View view(const Shape& shape) {
    const std::int64_t count = shape.num_elements();
    if (buffer_.empty() || buffer_.num_elements() < count) buffer_ = Tensor(DType::kF32, {count});
    return View(buffer_.as<float>(), DType::kF32, shape);
  }
  std::int64_t size_bytes() const { return static_cast<std::int64_t>(buffer_.size_bytes()); }

 private:
  Tensor buffer_;
};

}  // namespace caption::model
