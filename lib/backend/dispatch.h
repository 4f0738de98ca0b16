// backend/dispatch.h: calls the overload of a kernel for a run-time device. Together with
// has_cuda_kernels() this is the only code that asks whether this build has CUDA kernels.
//
//   dispatch(stream.device(),
//            [&](auto device) { impl::rms_norm(device, stream, x, weight, eps, y); });
//
// If this build has kernels for a device but an operation lacks the overload for it, linking fails
// and names the function. A device that this build lacks throws Error(kUnavailable). The mirror
// runs the CPU's overload and may be accessed while that runs.
#pragma once

#include <type_traits>
#include <utility>

#include "backend/device.h"
#include "backend/mirror.h"

namespace caption {

[[noreturn]] void throw_device_unavailable(Device device);

template <class Work>
decltype(auto) dispatch(Device device, Work&& work) {
  if (device == Device::kCpu) return std::forward<Work>(work)(Cpu{});
  if (device == Device::kMirror) {
    const MirrorAccess access;
    return std::forward<Work>(work)(Cpu{});
  }
#ifdef CAPTION_CUDA_KERNELS
  if constexpr (std::is_invocable_v<Work, Cuda>) {
    if (device.is_cuda()) return std::forward<Work>(work)(Cuda{});
  }
#endif
  throw_device_unavailable(device);
}

}  // namespace caption
