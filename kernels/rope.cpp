#include "kernels/rope.h"

#include "backend/dispatch.h"
#include "kernels/internal/check.h"

namespace caption::kernels {

void rope_table(Stream& stream, const RopeAngles& angles, View table) {
  const internal::Check check("rope_table", stream);
  const auto& [positions, inv_freq, axis, scale] = angles;
  const bool has_axes = !axis.empty();
  check.rank("positions", positions, has_axes ? 2 : 1);
  check.rank("inv_freq", inv_freq, 1);
  check.i32("positions", positions, positions.shape());
  check.dense("positions", positions);
  check.f32("inv_freq", inv_freq, {inv_freq.dim(0)});
  check.dense("inv_freq", inv_freq);
  if (has_axes) {
    check.i32("axis", axis, {inv_freq.dim(0)});
    check.dense("axis", axis);
  }
  check.f32("table", table, {positions.dim(-1), 2 * inv_freq.dim(0)});
  check.dense("table", table);
  dispatch(stream.device(), [&](auto device) { impl::rope_table(device, stream, angles, table); });
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
