#include "kernels/pool_2d.h"

#include "backend/dispatch.h"
#include "kernels/internal/check.h"

namespace caption::kernels {

void pool_2d(Stream& stream, ConstView x, Pooling pooling, std::int64_t stride, View y) {
  const internal::Check check("pool_2d", stream);
  check.rank("x", x, 4);
  check.f32("x", x, x.shape());
  if (stride < 1) check.fail("stride is " + std::to_string(stride) + "; wanted at least 1");
  check.f32("y", y, {x.dim(0), x.dim(1) / stride, x.dim(2) / stride, x.dim(3)});
  check.dense("y", y);
  dispatch(stream.device(),
           [&](auto device) { impl::pool_2d(device, stream, x, pooling, stride, y); });
}

void adaptive_mean_2d(Stream& stream, ConstView x, View y) {
  const internal::Check check("adaptive_mean_2d", stream);
  check.rank("x", x, 4);
  check.rank("y", y, 4);
  check.f32("x", x, x.shape());
  check.dense("x", x);
  check.f32("y", y, {x.dim(0), y.dim(1), y.dim(2), x.dim(3)});
  check.dense("y", y);
  if (x.dim(1) < 1 || x.dim(2) < 1 || y.dim(1) < 1 || y.dim(2) < 1)
    check.fail("a grid without rows or columns");
  dispatch(stream.device(), [&](auto device) { impl::adaptive_mean_2d(device, stream, x, y); });
}

}  // namespace caption::kernels
