// kernels/cuda/launch.cuh: how host code starts a kernel. A kernel is a struct:
//
//   struct Scale {
//     static constexpr int kThreads = 128;   // of a block; a multiple of 32
//     struct Params { ... };                 // trivially copyable: numbers and device pointers
//     struct Shared { ... };                 // the block's shared memory
//     static CAPTION_DEVICE void run(const Params& params) { ... }   // what a thread does
//   };
//   launch<Scale>(stream, {.x = rows}, {...});
//
// A kernel with kGpus is for these alone (kernels/cuda/gpus.h).
//
// nvcc makes a __global__ function of it; any other compiler runs it on the emulator
// (tests/support/cuda/emulator.h).
#pragma once

#include <type_traits>
#include <typeinfo>

#include "backend/stream.h"
#include "base/error.h"
#include "kernels/cuda/gpus.h"
#include "kernels/cuda/primitives.cuh"
#ifdef __CUDACC__
#include "backend/device_runtime.h"
#else
#include "tests/support/cuda/emulator.h"
#endif

namespace caption::kernels::cuda {

// Blocks along each axis; x at most 2^31 - 1, y and z at most 65535.
struct Grid {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
};

#ifdef __CUDACC__
// The bytes of the block's shared memory are a parameter, so that the entry's name states them
// (scripts/cuda/resources.py). Without the 1, a block per multiprocessor at least, ptxas 13.0
// chooses an occupancy of its own and spills registers for it. For a GPU that is not the kernel's,
// it ends a launch with an error.
template <class Kernel, std::size_t kSharedBytes>
__global__ void __launch_bounds__(Kernel::kThreads, 1)
    kernel_entry(const __grid_constant__ typename Kernel::Params params) {
#ifdef __CUDA_ARCH__
  if constexpr (kRunsOn<Kernel, __CUDA_ARCH__ / 10>) {
    Kernel::run(params);
  } else {
    __trap();
  }
#endif
}

// Shared memory that every launch may have; more has to be asked for.
inline constexpr std::size_t kDefaultSharedBytes = 48 << 10;

#endif

// Enqueues a launch on a queue of the device (Stream::queue()); null: the default one. An empty
// grid is no launch. Throws Error(kUnavailable) when the driver refuses the launch.
template <class Kernel>
void launch(void* queue, Grid grid, const typename Kernel::Params& params) {
  static_assert(Kernel::kThreads % 32 == 0 && Kernel::kThreads <= 1024);
  static_assert(std::is_trivially_copyable_v<typename Kernel::Params>);
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  constexpr std::size_t kSharedBytes =
      std::is_empty_v<typename Kernel::Shared> ? 0 : sizeof(typename Kernel::Shared);
#ifdef __CUDACC__
  if constexpr (kSharedBytes > kDefaultSharedBytes) {
    check_cuda(cudaFuncSetAttribute(kernel_entry<Kernel, kSharedBytes>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes),
               "was asked for shared memory");
  }
  kernel_entry<Kernel, kSharedBytes><<<dim3(grid.x, grid.y, grid.z), Kernel::kThreads, kSharedBytes,
                                       static_cast<cudaStream_t>(queue)>>>(params);
  check_cuda(cudaGetLastError(), "started a kernel");
#else
  cuda_emulator::launch(queue, {.grid = {grid.x, grid.y, grid.z},
                                .num_threads = Kernel::kThreads,
                                .shared_bytes = kSharedBytes,
                                .params = &params,
                                .params_bytes = sizeof params,
                                .kernel = typeid(Kernel).name(),
                                .source = __BASE_FILE__,
                                .run = [](const void* copied) {
                                  Kernel::run(*static_cast<const typename Kernel::Params*>(copied));
                                }});
#endif
}

// Throws Error(kInternal) for a GPU that is not the kernel's. A compute capability of 0, of no GPU,
// is the emulator's, which runs all kernels.
inline void check_gpu(const Stream& stream, Gpus of_kernel) {
  const int capability = stream.context().compute_capability;
  CAPTION_CHECK(capability == 0 || of_kernel.contains(capability),
                "a kernel is launched on a GPU for which it is not compiled");
}

template <class Kernel>
void launch(Stream& stream, Grid grid, const typename Kernel::Params& params) {
  check_gpu(stream, gpus_of<Kernel>());
  launch<Kernel>(stream.queue(), grid, params);
}

}  // namespace caption::kernels::cuda
