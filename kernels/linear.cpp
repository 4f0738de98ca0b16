#include "kernels/linear.h"

#include "backend/dispatch.h"
#include "kernels/internal/check.h"

namespace caption::kernels {
namespace {

void checked_linear(internal::Check&& check, Stream& stream, ConstView x,
                    const PackedWeight& weight, ConstView bias, LinearOutput output, View y) {
  check.rank("x", x, 2);
  const std::int64_t n = weight.num_features();
  check.set_matrix(n, weight.num_columns());
  if (weight.layout() == PackedWeight::Layout::kRows) {
    check.floating("weight", weight.rows(), {n, x.dim(1)});
  }
  check.f32("x", x, {x.dim(0), weight.num_columns()});
  if (!bias.empty()) {
    check.floating("bias", bias, {n});
    check.dense("bias", bias);
  }
  check.f32("y", y, {x.dim(0), n});
  dispatch(stream.device(),
           [&](auto device) { impl::linear(device, stream, x, weight, bias, output, y); });
}

}  // namespace

void linear(Stream& stream, ConstView x, const PackedWeight& weight, ConstView bias, View y) {
  checked_linear(internal::Check("linear", stream), stream, x, weight, bias, LinearOutput::kWrite,
                 y);
}

void linear_add(Stream& stream, ConstView x, const PackedWeight& weight, ConstView bias, View y) {
  checked_linear(internal::Check("linear_add", stream), stream, x, weight, bias, LinearOutput::kAdd,
                 y);
}

void linear_gelu(Stream& stream, ConstView x, const PackedWeight& weight, ConstView bias, View y) {
  checked_linear(internal::Check("linear_gelu", stream), stream, x, weight, bias,
                 LinearOutput::kGelu, y);
}

void linear_quick_gelu(Stream& stream, ConstView x, const PackedWeight& weight, ConstView bias,
                       View y) {
  checked_linear(internal::Check("linear_quick_gelu", stream), stream, x, weight, bias,
                 LinearOutput::kQuickGelu, y);
}

}  // namespace caption::kernels
