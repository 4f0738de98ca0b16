#include "kernels/activation_dtype.h"

#include "backend/dispatch.h"

namespace caption::kernels {

DType activation_dtype(const Weight& weight) {
  return dispatch(weight.device(),
                  [&](auto device) { return impl::activation_dtype(device, weight); });
}

}  // namespace caption::kernels
