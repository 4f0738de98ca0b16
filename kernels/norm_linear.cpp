#include "kernels/norm_linear.h"

#include "backend/dispatch.h"
#include "kernels/internal/check_linear.h"
#include "kernels/norm.h"

namespace caption::kernels {
namespace {

void check_rows(const internal::Check& check, const RowsToNorm& rows) {
  check.rank("x", rows.x, 2);
  check.f32("x", rows.x, rows.x.shape());
  check.floating("norm", rows.weight, {rows.x.dim(1)});
  check.dense("norm", rows.weight);
  check.f32("normed", rows.normed, rows.x.shape());
  check.dense("normed", rows.normed);
  if (rows.eps <= 0) check.fail("eps is not positive");
}

}  // namespace

void norm_linear(Stream& stream, const RowsToNorm& rows, std::span<const LinearPart> parts) {
  if (!internal::are_alike(parts)) {
    rms_norm(stream, rows.x, rows.weight, rows.eps, rows.normed);
    return linear(stream, rows.normed, parts);
  }
  internal::Check check("norm_linear", stream);
  check_rows(check, rows);
  internal::check_parts(check, rows.x, parts, LinearOutput::kWrite);
  dispatch(stream.device(), [&](auto device) { impl::norm_linear(device, stream, rows, parts); });
}

void norm_linear_swiglu(Stream& stream, const RowsToNorm& rows, BiasedWeight gate, BiasedWeight up,
                        View y) {
  internal::Check check("norm_linear_swiglu", stream);
  check_rows(check, rows);
  const LinearPart parts[] = {{gate.weight, gate.bias, y}, {up.weight, up.bias, y}};
  internal::check_parts(check, rows.x, parts, LinearOutput::kWrite);
  dispatch(stream.device(), [&](auto device) {
    impl::norm_linear_swiglu(device, stream, rows, parts[0], parts[1]);
  });
}

}  // namespace caption::kernels
