// tensor/tensor.h: Tensor owns memory, View borrows it.
//
// Row-major. All axes but the first are dense; the first ("row") may be strided, so a range of
// columns of a matrix is a View too. Sizes and strides are in elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "backend/buffer.h"
#include "backend/device.h"
#include "backend/mirror.h"
#include "base/error.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace caption {

// Throws Error(kInternal) for memory that the calling code cannot access: that of a GPU, and that
// of the mirror outside its kernels.
inline void check_host_access(Device device) {
  CAPTION_CHECK(device == Device::kCpu || (device == Device::kMirror && mirror_is_accessible()),
                "the host reads or writes memory of a device");
}

// Borrows read-only memory; passed by value. Must not outlive that memory.
class ConstView {
 public:
  ConstView() = default;
  // A dense view: row_stride is the product of the extents after the first.
  ConstView(const void* begin, DType dtype, const Shape& shape, Device device = Device::kCpu);
  ConstView(const void* begin, DType dtype, const Shape& shape, std::int64_t row_stride,
            Device device);

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  std::int64_t dim(int axis) const { return shape_[axis]; }
  std::int64_t num_elements() const { return shape_.num_elements(); }
  std::int64_t row_stride() const { return row_stride_; }
  bool is_dense() const;
  bool empty() const { return begin_ == nullptr; }
  Device device() const { return device_; }

  // Returns the typed begin, which only code that runs on the view's device may use; throws
  // Error(kInternal) when T is not the dtype, or when the host cannot access the memory now.
  template <class T>
  const T* as() const {
    CAPTION_CHECK(kDTypeOf<T> == dtype_, "view of another dtype");
    check_host_access(device_);
    return static_cast<const T*>(begin_);
  }
  const void* raw() const { return begin_; }

  // Returns rows [first, first + count) of the first axis.
  ConstView rows(std::int64_t first, std::int64_t count) const;
  // Returns the same elements with another shape. A strided view must keep its first extent.
  ConstView reshape(const Shape& shape) const;
  // Returns columns [first, first + count) of the last axis of a rank-2 view, as a strided view.
  ConstView columns(std::int64_t first, std::int64_t count) const;

 protected:
  const void* begin_ = nullptr;
  DType dtype_ = DType::kF32;
  Shape shape_;
  std::int64_t row_stride_ = 0;
  Device device_ = Device::kCpu;
};

// Returns a span as a dense view of rank 1, for index arrays on the CPU.
template <class T>
ConstView view_of(std::span<const T> elements) {
  return ConstView(elements.data(), kDTypeOf<T>, {static_cast<std::int64_t>(elements.size())});
}

// Borrows writable memory.
class View : public ConstView {
 public:
  View() = default;
  View(void* begin, DType dtype, const Shape& shape, Device device = Device::kCpu)
      : ConstView(begin, dtype, shape, device) {}
  View(void* begin, DType dtype, const Shape& shape, std::int64_t row_stride, Device device)
      : ConstView(begin, dtype, shape, row_stride, device) {}

  template <class T>
  T* as() const {
    return const_cast<T*>(ConstView::as<T>());
  }
  void* raw() const { return const_cast<void*>(begin_); }
  View rows(std::int64_t first, std::int64_t count) const;
  View reshape(const Shape& shape) const;
  View columns(std::int64_t first, std::int64_t count) const;
};

// Owns its memory; moves, does not copy. Contents are uninitialised unless made by zeros().
class Tensor {
 public:
  Tensor() = default;
  Tensor(DType dtype, const Shape& shape, Device device = Device::kCpu,
         Paging paging = Paging::kHuge);
  static Tensor zeros(DType dtype, const Shape& shape, Device device = Device::kCpu);
  // A tensor in memory that has its bytes exactly.
  Tensor(Buffer buffer, DType dtype, const Shape& shape);
  // A tensor of the host in memory of Buffer::staging().
  static Tensor staging(DType dtype, const Shape& shape, Device device);

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  std::int64_t dim(int axis) const { return shape_[axis]; }
  std::int64_t num_elements() const { return shape_.num_elements(); }
  std::size_t size_bytes() const { return buffer_.size_bytes(); }
  Device device() const { return buffer_.device(); }
  bool empty() const { return buffer_.begin() == nullptr; }

  View view() { return View(buffer_.begin(), dtype_, shape_, buffer_.device()); }
  ConstView view() const { return ConstView(buffer_.begin(), dtype_, shape_, buffer_.device()); }
  // As ConstView::as().
  template <class T>
  T* as() {
    CAPTION_CHECK(kDTypeOf<T> == dtype_, "tensor of another dtype");
    check_host_access(device());
    return reinterpret_cast<T*>(buffer_.begin());
  }
  template <class T>
  const T* as() const {
    CAPTION_CHECK(kDTypeOf<T> == dtype_, "tensor of another dtype");
    check_host_access(device());
    return reinterpret_cast<const T*>(buffer_.begin());
  }

  // Returns a deep copy; a named function because it is expensive.
  Tensor clone() const;

 private:
  Buffer buffer_;
  DType dtype_ = DType::kF32;
  Shape shape_;
};

}  // namespace caption
