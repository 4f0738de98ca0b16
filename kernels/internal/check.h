// kernels/internal/check.h: operand checks that every operation makes before it dispatches. The
// lifetime of a Check also times the operation in the stream's profile.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "backend/profile_scope.h"
#include "backend/stream.h"
#include "tensor/tensor.h"

namespace caption::kernels::internal {

// Every check throws Error(kInternal) "<op>: <operand> is <found>; wanted <wanted>".
class Check {
 public:
  // `op` must be a string literal, or otherwise outlive the Check.
  Check(std::string_view op, const Stream& stream)
      : op_(op), device_(stream.device()), scope_(stream, op) {}

  // Sets the matrix of a dense layer, by which the profile distinguishes its layers.
  void set_matrix(std::int64_t rows, std::int64_t columns) { scope_.set_matrix(rows, columns); }

  void rank(std::string_view name, ConstView view, int wanted) const;
  // These check the dtype and the shape.
  void f32(std::string_view name, ConstView view, const Shape& wanted) const;
  // Checks activations that a device may hold in 16 bits: f32 on the CPU and the mirror, otherwise
  // f32, bf16 or f16.
  void activations(std::string_view name, ConstView view, const Shape& wanted) const;
  void i32(std::string_view name, ConstView view, const Shape& wanted) const;
  void same_dtype(std::string_view name, ConstView view, const Shape& wanted, DType dtype) const;
  // Checks that the dtype is f32, bf16 or f16, and the shape.
  void floating(std::string_view name, ConstView view, const Shape& wanted) const;
  // Checks that the dtype is f32, bf16, f16 or i8, and the shape.
  void page_elements(std::string_view name, ConstView view, const Shape& wanted) const;
  void dense(std::string_view name, ConstView view) const;
  // Checks that an operand is on the stream's device.
  void device(std::string_view name, Device found) const;
  // Throws Error(kInternal) "<op>: <rule>".
  [[noreturn]] void fail(const std::string& rule) const;

 private:
  void shape(std::string_view name, ConstView view, const Shape& wanted,
             std::string_view dtypes) const;
  [[noreturn]] void fail_operand(std::string_view name, ConstView view,
                                 const std::string& wanted) const;

  std::string_view op_;
  Device device_;
  ProfileScope scope_;
};

}  // namespace caption::kernels::internal
