#include "kernels/norm.h"

#include "backend/dispatch.h"
#include "kernels/internal/check.h"

namespace caption::kernels {
namespace {

void check_norm(const internal::Check& check, ConstView x, ConstView weight, float eps,
                ConstView y) {
  if (x.shape().rank() != 2 && x.shape().rank() != 3)
    check.fail("x is " + x.shape().to_string() + "; wanted [rows, dim] or [rows, heads, dim]");
  check.f32("x", x, x.shape());
  check.floating("weight", weight, {x.dim(-1)});
  check.dense("weight", weight);
  check.activations("y", y, x.shape());
  if (eps <= 0) check.fail("eps is not positive");
}

}  // namespace

void rms_norm(Stream& stream, ConstView x, ConstView weight, float eps, View y) {
  const internal::Check check("rms_norm", stream);
  check_norm(check, x, weight, eps, y);
  dispatch(stream.device(), [&](auto device) {
    impl::rms_norm(device, stream, {.x = x, .weight = weight, .eps = eps}, y);
  });
}

void layer_norm(Stream& stream, ConstView x, ConstView weight, ConstView bias, float eps, View y) {
  const internal::Check check("layer_norm", stream);
  check_norm(check, x, weight, eps, y);
  check.floating("bias", bias, {x.dim(-1)});
  check.dense("bias", bias);
  dispatch(stream.device(), [&](auto device) {
    impl::layer_norm(device, stream, {.x = x, .weight = weight, .bias = bias, .eps = eps}, y);
  });
}

}  // namespace caption::kernels
