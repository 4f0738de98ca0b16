#include "kernels/internal/check.h"

#include "base/error.h"

namespace caption::kernels::internal {

void Check::fail_operand(std::string_view name, ConstView view, const std::string& wanted) const {
  throw Error(ErrorCode::kInternal,
              std::string(op_) + ": " + std::string(name) + " is " +
                  std::string(dtype_name(view.dtype())) + " " + view.shape().to_string() + " on " +
                  std::string(device_name(view.device())) + "; wanted " + wanted);
}

void Check::shape(std::string_view name, ConstView view, const Shape& wanted,
                  std::string_view dtypes) const {
  if (view.shape() != wanted)
    fail_operand(name, view, std::string(dtypes) + " " + wanted.to_string());
  if (view.device() != device_)
    fail_operand(name, view, "it on " + std::string(device_name(device_)));
}

void Check::rank(std::string_view name, ConstView view, int wanted) const {
  if (view.shape().rank() != wanted) fail_operand(name, view, std::to_string(wanted) + " axes");
}

void Check::same_dtype(std::string_view name, ConstView view, const Shape& wanted,
                       DType dtype) const {
  if (view.dtype() != dtype) {
    fail_operand(name, view, std::string(dtype_name(dtype)) + " " + wanted.to_string());
  }
  shape(name, view, wanted, dtype_name(dtype));
}

void Check::f32(std::string_view name, ConstView view, const Shape& wanted) const {
  same_dtype(name, view, wanted, DType::kF32);
}

void Check::activations(std::string_view name, ConstView view, const Shape& wanted) const {
  if (device_.is_cuda()) return floating(name, view, wanted);
  f32(name, view, wanted);
}

void Check::i32(std::string_view name, ConstView view, const Shape& wanted) const {
  same_dtype(name, view, wanted, DType::kI32);
}

void Check::floating(std::string_view name, ConstView view, const Shape& wanted) const {
  constexpr std::string_view kDTypes = "f32, bf16 or f16";
  const bool is_floating =
      view.dtype() == DType::kF32 || view.dtype() == DType::kBF16 || view.dtype() == DType::kF16;
  if (!is_floating) fail_operand(name, view, std::string(kDTypes) + " " + wanted.to_string());
  shape(name, view, wanted, kDTypes);
}

void Check::page_elements(std::string_view name, ConstView view, const Shape& wanted) const {
  constexpr std::string_view kDTypes = "f32, bf16, f16 or i8";
  const bool is_known = view.dtype() == DType::kF32 || view.dtype() == DType::kBF16 ||
                        view.dtype() == DType::kF16 || view.dtype() == DType::kI8;
  if (!is_known) fail_operand(name, view, std::string(kDTypes) + " " + wanted.to_string());
  shape(name, view, wanted, kDTypes);
}

void Check::dense(std::string_view name, ConstView view) const {
  if (!view.is_dense())
    fail_operand(name, view, "dense rows, not a stride of " + std::to_string(view.row_stride()));
}

void Check::device(std::string_view name, Device found) const {
  if (found == device_) return;
  fail(std::string(name) + " is on " + std::string(device_name(found)) + "; wanted it on " +
       std::string(device_name(device_)));
}

void Check::fail(const std::string& rule) const {
  throw Error(ErrorCode::kInternal, std::string(op_) + ": " + rule);
}

}  // namespace caption::kernels::internal
