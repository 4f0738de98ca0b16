#include "kernels/swiglu.h"

#include "backend/dispatch.h"
#include "kernels/internal/check.h"

namespace caption::kernels {

void swiglu(Stream& stream, ConstView gate, ConstView up, View y) {
  const internal::Check check("swiglu", stream);
  check.rank("gate", gate, 2);
  check.f32("gate", gate, gate.shape());
  check.f32("up", up, gate.shape());
  check.activations("y", y, gate.shape());
  dispatch(stream.device(), [&](auto device) { impl::swiglu(device, stream, gate, up, y); });
}

}  // namespace caption::kernels
