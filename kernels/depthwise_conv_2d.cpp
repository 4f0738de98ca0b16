#include "kernels/depthwise_conv_2d.h"

#include "backend/dispatch.h"
#include "kernels/internal/check.h"

namespace caption::kernels {

void depthwise_conv_2d(Stream& stream, ConstView x, ConstView weight, View y) {
  constexpr std::int64_t kMaxSize = 15;
  const internal::Check check("depthwise_conv_2d", stream);
  check.rank("x", x, 4);
  check.rank("weight", weight, 4);
  const std::int64_t size = weight.dim(2);
  if (size % 2 != 1 || size > kMaxSize)
    check.fail("the kernel has " + std::to_string(size) + " rows; wanted an odd number up to 15");
  check.f32("x", x, x.shape());
  check.dense("x", x);
  check.floating("weight", weight, {x.dim(3), 1, size, size});
  check.dense("weight", weight);
  check.f32("y", y, x.shape());
  check.dense("y", y);
  dispatch(stream.device(),
           [&](auto device) { impl::depthwise_conv_2d(device, stream, x, weight, y); });
}

}  // namespace caption::kernels
