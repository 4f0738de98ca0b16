#include "kernels/merge_patches.h"

#include <string>

#include "backend/dispatch.h"
#include "kernels/internal/check.h"

namespace caption::kernels {

void merge_patches(Stream& stream, ConstView x, std::int64_t stride, MergeOrder order, View y) {
  const internal::Check check("merge_patches", stream);
  check.rank("x", x, 4);
  check.f32("x", x, x.shape());
  if (stride < 1) check.fail("stride is " + std::to_string(stride) + "; wanted at least 1");
  check.f32("y", y, {x.dim(0), x.dim(1) / stride, x.dim(2) / stride, stride * stride * x.dim(3)});
  check.dense("y", y);
  dispatch(stream.device(),
           [&](auto device) { impl::merge_patches(device, stream, x, stride, order, y); });
}

}  // namespace caption::kernels
