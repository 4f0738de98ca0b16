#include "kernels/convert.h"

#include "backend/dispatch.h"
#include "kernels/internal/check.h"

namespace caption::kernels {

void convert(Stream& stream, ConstView x, View y) {
  const internal::Check check("convert", stream);
  if (x.shape().rank() < 1) check.fail("x has no axes; wanted at least one");
  check.floating("x", x, x.shape());
  check.floating("y", y, x.shape());
  dispatch(stream.device(), [&](auto device) { impl::convert(device, stream, x, y); });
}

}  // namespace caption::kernels
