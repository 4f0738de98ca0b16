#include "kernels/activation.h"

#include "backend/dispatch.h"
#include "kernels/internal/check.h"

namespace caption::kernels {
namespace {

void check_unary(const internal::Check& check, ConstView x, ConstView y) {
  check.rank("x", x, 2);
  check.f32("x", x, x.shape());
  check.f32("y", y, x.shape());
}

}  // namespace

void gelu_erf(Stream& stream, ConstView x, View y) {
  check_unary(internal::Check("gelu_erf", stream), x, y);
  dispatch(stream.device(), [&](auto device) { impl::gelu_erf(device, stream, x, y); });
}

void quick_gelu(Stream& stream, ConstView x, View y) {
  check_unary(internal::Check("quick_gelu", stream), x, y);
  dispatch(stream.device(), [&](auto device) { impl::quick_gelu(device, stream, x, y); });
}

void add(Stream& stream, ConstView x, View y) {
  const internal::Check check("add", stream);
  check.rank("x", x, 2);
  check.rank("y", y, 2);
  check.floating("x", x, {x.dim(0), y.dim(1)});
  check.f32("y", y, y.shape());
  const bool repeats_evenly = x.dim(0) == 0 ? y.dim(0) == 0 : y.dim(0) % x.dim(0) == 0;
  if (!repeats_evenly)
    check.fail("y has " + std::to_string(y.dim(0)) + " rows; wanted a multiple of x's " +
               std::to_string(x.dim(0)));
  dispatch(stream.device(), [&](auto device) { impl::add(device, stream, x, y); });
}

}  // namespace caption::kernels
