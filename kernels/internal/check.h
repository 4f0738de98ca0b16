// kernels/internal/check.h: what every contract asks of its operands before it dispatches; as long
// as the Check lives, the operation is timed in the stream's profile.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "backend/stream.h"
#include "tensor/tensor.h"

namespace caption::kernels::internal {

// Every check throws Error(kInternal) "<op>: <operand> is <found>; wanted <wanted>".
class Check {
 public:
  // `op` must outlive the Check; a literal.
  Check(std::string_view op, const Stream& stream)
      : op_(op), device_(stream.device()), scope_(stream.profile(), op) {}

  // The matrix of a dense layer, by which the profile tells one kind of layer from another.
  void set_matrix(std::int64_t rows, std::int64_t columns) { scope_.set_matrix(rows, columns); }

  void rank(std::string_view name, ConstView view, int wanted) const;
  // Of one dtype, and of a shape.
  void f32(std::string_view name, ConstView view, const Shape& wanted) const;
  void i32(std::string_view name, ConstView view, const Shape& wanted) const;
  void same_dtype(std::string_view name, ConstView view, const Shape& wanted, DType dtype) const;
  // Of f32, bf16 or f16, and of a shape.
  void floating(std::string_view name, ConstView view, const Shape& wanted) const;
  // Of f32, bf16, f16 or i8, and of a shape.
  void page_elements(std::string_view name, ConstView view, const Shape& wanted) const;
  void dense(std::string_view name, ConstView view) const;
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
