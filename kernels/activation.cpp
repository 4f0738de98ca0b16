#include "kernels/activation.h"

#include "backend/dispatch.h"
#include "kernels/internal/check.h"

namespace caption::kernels {

void silu(Stream& stream, ConstView x, View y) {
  const internal::Check check("silu", stream);
  check.rank("x", x, 2);
  check.f32("x", x, x.shape());
  check.dense("x", x);
  check.f32("y", y, x.shape());
  check.dense("y", y);
  dispatch(stream.device(), [&](auto device) { impl::add_silu(device, stream, x, {}, y); });
}

void add_silu(Stream& stream, ConstView x, ConstView residual, View y) {
  const internal::Check check("add_silu", stream);
  check.rank("x", x, 2);
  check.f32("x", x, x.shape());
  check.dense("x", x);
  check.f32("residual", residual, x.shape());
  check.dense("residual", residual);
  check.f32("y", y, x.shape());
  check.dense("y", y);
  dispatch(stream.device(), [&](auto device) { impl::add_silu(device, stream, x, residual, y); });
}

void sigmoid_scale(Stream& stream, ConstView x, ConstView gate, View y) {
  const internal::Check check("sigmoid_scale", stream);
  check.rank("x", x, 3);
  check.f32("x", x, x.shape());
  check.dense("x", x);
  check.f32("gate", gate, {x.dim(0), x.dim(2)});
  check.dense("gate", gate);
  check.f32("y", y, x.shape());
  check.dense("y", y);
  dispatch(stream.device(), [&](auto device) { impl::sigmoid_scale(device, stream, x, gate, y); });
}

}  // namespace caption::kernels
