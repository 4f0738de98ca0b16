#include "kernels/rope.h"

#include "backend/dispatch.h"
#include "kernels/internal/check.h"

namespace caption::kernels {

void rope_table(Stream& stream, ConstView positions, ConstView inv_freq, View table) {
  const internal::Check check("rope_table", stream);
  check.rank("positions", positions, 1);
  check.rank("inv_freq", inv_freq, 1);
  check.i32("positions", positions, {positions.dim(0)});
  check.dense("positions", positions);
  check.f32("inv_freq", inv_freq, {inv_freq.dim(0)});
  check.dense("inv_freq", inv_freq);
  check.f32("table", table, {positions.dim(0), 2 * inv_freq.dim(0)});
  check.dense("table", table);
  dispatch(stream.device(),
           [&](auto device) { impl::rope_table(device, stream, positions, inv_freq, table); });
}

void rope(Stream& stream, ConstView table, View x) {
  const internal::Check check("rope", stream);
  check.rank("x", x, 3);
  check.f32("x", x, x.shape());
  if (x.dim(2) % 2 != 0) check.fail("head_dim is odd; wanted two halves");
  check.f32("table", table, {x.dim(0), x.dim(2)});
  check.dense("table", table);
  dispatch(stream.device(), [&](auto device) { impl::rope(device, stream, table, x); });
}

}  // namespace caption::kernels
