#include "tensor/tensor.h"

#include <cstring>
#include <limits>
#include <string>

#include "backend/device_runtime.h"
#include "backend/dispatch.h"

namespace caption {
namespace {

// Returns the elements of one row: the product of the extents after the first.
std::int64_t row_elements(const Shape& shape) {
  std::int64_t product = 1;
  for (int axis = 1; axis < shape.rank(); ++axis) product *= shape[axis];
  return product;
}

std::size_t checked_size_bytes(DType dtype, const Shape& shape) {
  const auto count = static_cast<std::size_t>(shape.num_elements());
  CAPTION_CHECK(count <= std::numeric_limits<std::size_t>::max() / dtype_size_bytes(dtype),
                "a tensor of shape " + shape.to_string() + " has more bytes than 64 bits count");
  return count * dtype_size_bytes(dtype);
}

const std::byte* advance(const void* begin, DType dtype, std::int64_t elements) {
  if (begin == nullptr) return nullptr;
  return static_cast<const std::byte*>(begin) +
         elements * static_cast<std::int64_t>(dtype_size_bytes(dtype));
}

void check_range(std::int64_t first, std::int64_t count, std::int64_t extent, const char* what) {
  CAPTION_CHECK(first >= 0 && count >= 0 && first <= extent && count <= extent - first,
                std::string(what) + " [" + std::to_string(first) + ", +" + std::to_string(count) +
                    ") lie outside an axis of " + std::to_string(extent));
}

Shape with_axis(const Shape& shape, int axis, std::int64_t extent) {
  std::array<std::int64_t, Shape::kMaxRank> extents{};
  for (int i = 0; i < shape.rank(); ++i) {
    extents[static_cast<std::size_t>(i)] = i == axis ? extent : shape[i];
  }
  return Shape(std::span(extents).first(static_cast<std::size_t>(shape.rank())));
}

}  // namespace

ConstView::ConstView(const void* begin, DType dtype, const Shape& shape, Device device)
    : begin_(begin), dtype_(dtype), shape_(shape), device_(device) {
  const std::int64_t count = shape.num_elements();  // throws if it does not fit 63 bits
  row_stride_ = count == 0 ? 0 : row_elements(shape);
}

ConstView::ConstView(const void* begin, DType dtype, const Shape& shape, std::int64_t row_stride,
                     Device device)
    : begin_(begin), dtype_(dtype), shape_(shape), row_stride_(row_stride), device_(device) {
  CAPTION_CHECK(shape.num_elements() == 0 || row_stride >= row_elements(shape),
                "a view's row stride " + std::to_string(row_stride) +
                    " is shorter than a row of its shape " + shape.to_string());
}

bool ConstView::is_dense() const {
  // With at most one row the stride is never used.
  if (shape_.rank() == 0 || shape_[0] <= 1 || shape_.num_elements() == 0) return true;
  return row_stride_ == row_elements(shape_);
}

ConstView ConstView::rows(std::int64_t first, std::int64_t count) const {
  CAPTION_CHECK(shape_.rank() >= 1, "a view of rank 0 has no rows");
  check_range(first, count, shape_[0], "rows");
  return ConstView(advance(begin_, dtype_, first * row_stride_), dtype_,
                   with_axis(shape_, 0, count), row_stride_, device_);
}

ConstView ConstView::reshape(const Shape& shape) const {
  CAPTION_CHECK(shape.num_elements() == num_elements(),
                "a view of shape " + shape_.to_string() + " cannot become " + shape.to_string());
  if (is_dense()) return ConstView(begin_, dtype_, shape, device_);
  CAPTION_CHECK(shape.rank() >= 1 && shape[0] == shape_[0],
                "a strided view of shape " + shape_.to_string() +
                    " keeps its first axis and cannot become " + shape.to_string());
  return ConstView(begin_, dtype_, shape, row_stride_, device_);
}

View View::rows(std::int64_t first, std::int64_t count) const {
  const ConstView part = ConstView::rows(first, count);
  return View(const_cast<void*>(part.raw()), dtype_, part.shape(), part.row_stride(), device_);
}

View View::reshape(const Shape& shape) const {
  const ConstView same = ConstView::reshape(shape);
  return View(const_cast<void*>(same.raw()), dtype_, shape, same.row_stride(), device_);
}

ConstView ConstView::columns(std::int64_t first, std::int64_t count) const {
  CAPTION_CHECK(shape_.rank() == 2,
                "columns of a view of shape " + shape_.to_string() + "; only a matrix has them");
  check_range(first, count, shape_[1], "columns");
  return {advance(begin_, dtype_, first), dtype_, Shape{shape_[0], count}, row_stride_, device_};
}

View View::columns(std::int64_t first, std::int64_t count) const {
  const ConstView part = ConstView::columns(first, count);
  return {const_cast<void*>(part.raw()), part.dtype(), part.shape(), part.row_stride(),
          part.device()};
}

Tensor::Tensor(DType dtype, const Shape& shape, Device device, Paging paging)
    : buffer_(device, checked_size_bytes(dtype, shape), paging), dtype_(dtype), shape_(shape) {}

Tensor::Tensor(Buffer buffer, DType dtype, const Shape& shape)
    : buffer_(std::move(buffer)), dtype_(dtype), shape_(shape) {
  CAPTION_CHECK(buffer_.size_bytes() == checked_size_bytes(dtype, shape),
                "memory of another size than a tensor of shape " + shape.to_string());
}

Tensor Tensor::zeros(DType dtype, const Shape& shape, Device device) {
  Tensor tensor(dtype, shape, device);
  if (tensor.empty()) return tensor;
  if (device.is_cuda()) {
    DeviceRuntime& runtime = require_device_runtime(device);
    runtime.fill_zeros(nullptr, tensor.buffer_.begin(), tensor.size_bytes());
    runtime.synchronize(nullptr);
    return tensor;
  }
  dispatch(device, [&](Cpu) { std::memset(tensor.buffer_.begin(), 0, tensor.size_bytes()); });
  return tensor;
}

Tensor Tensor::staging(DType dtype, const Shape& shape, Device device) {
  return Tensor(Buffer::staging(device, checked_size_bytes(dtype, shape)), dtype, shape);
}

Tensor Tensor::clone() const {
  Tensor copy(dtype_, shape_, device());
  if (empty()) return copy;
  if (device().is_cuda()) {
    DeviceRuntime& runtime = require_device_runtime(device());
    runtime.synchronize_all();  // the elements may be being computed
    runtime.copy(nullptr, {.to = copy.buffer_.begin(),
                           .from = buffer_.begin(),
                           .row_bytes = size_bytes(),
                           .num_rows = 1});
    runtime.synchronize(nullptr);
    return copy;
  }
  dispatch(device(),
           [&](Cpu) { std::memcpy(copy.buffer_.begin(), buffer_.begin(), size_bytes()); });
  return copy;
}

}  // namespace caption
