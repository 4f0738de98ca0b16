// backend/dispatch.h: calls the overload of a kernel for a run-time device. Together with
// has_cuda_kernels() this is the only code that asks whether this build has CUDA kernels.
//
//   dispatch(stream.device(),
//            [&](auto device) { impl::rms_norm(device, stream, x, weight, eps, y); });
//
// If this build has kernels for a device but an operation lacks the overload for it, linking fails
// and names the function. A device that this build lacks throws Error(kUnavailable).
#pragma once

#include <utility>

#include "backend/device.h"

namespace caption {

[[noreturn]] void throw_device_unavailable(Device device);

template <class Work>
decltype(auto) dispatch(Device device, Work&& work) {
  if (device == Device::kCpu) return std::forward<Work>(work)(Cpu{});
#ifdef CAPTION_CUDA_KERNELS
  if (device == Device::kCuda) return std::forward<Work>(work)(Cuda{});
#endif
  throw_device_unavailable(device);
}

}  // namespace caption
