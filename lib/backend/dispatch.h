// backend/dispatch.h: from a run-time device to the overload that does the work. The only file
// that asks whether this build has CUDA kernels.
//
//   dispatch(stream.device(),
//            [&](auto device) { impl::rms_norm(device, stream, x, weight, eps, y); });
//
// A device whose kernels this build has, but whose twin of one operation is missing, is a link
// error that names the function. A device this build lacks throws Error(kUnavailable).
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
