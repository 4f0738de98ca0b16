#include "kernels/resize_bilinear.h"

#include "backend/dispatch.h"
#include "kernels/internal/check.h"

namespace caption::kernels {

void resize_bilinear(Stream& stream, ConstView x, View y) {
  const internal::Check check("resize_bilinear", stream);
  check.rank("x", x, 4);
  check.rank("y", y, 4);
  check.f32("x", x, x.shape());
  check.dense("x", x);
  check.f32("y", y, {x.dim(0), y.dim(1), y.dim(2), x.dim(3)});
  check.dense("y", y);
  if (x.dim(1) < 1 || x.dim(2) < 1 || y.dim(1) < 1 || y.dim(2) < 1) {
    check.fail("a grid is empty: from " + x.shape().to_string() + " to " + y.shape().to_string());
  }
  dispatch(stream.device(), [&](auto device) { impl::resize_bilinear(device, stream, x, y); });
}

}  // namespace caption::kernels
