// kernels/cuda/dependent_launch.cuh: launches that begin, in a graph, before the launch before them
// has ended: CUDA's programmatic dependent launch, which GPUs have from sm_90 on.
//
//   struct Scale {                              // as launch.cuh says
//     static CAPTION_DEVICE void run(const Params& params) {
//       ...                                     // what needs no earlier launch of the graph
//       wait_for_launches_before();
//       ...
//     }
//   };
//   launch_dependent<Scale>(stream, {.x = rows}, {...});
//
// The blocks of such a launch begin when each block of the launch before it has called
// wait_for_launches_before() or has ended, so that starting them, and what they do before their own
// call, takes no time of its own. Before its call a thread writes no global memory and reads none
// that launches of the graph write; every thread calls it once. Outside of graphs, on other GPUs
// and after work that is no such launch, a launch begins when all work before it is done.
#pragma once

#include <cstddef>

#include "kernels/cuda/launch.cuh"

namespace caption::kernels::cuda {

#ifdef __CUDACC__

// Returns when all launches before this one are complete, and their writes are visible. As each of
// them has called it, none of an earlier launch is under way either.
CAPTION_DEVICE void wait_for_launches_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

#endif

// As launch(). Shared is not empty.
template <class Kernel>
void launch_dependent(void* queue, Grid grid, const typename Kernel::Params& params) {
#ifdef __CUDACC__
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  if (!begins_early(queue)) return launch<Kernel>(queue, grid, params);
  constexpr std::size_t kSharedBytes = sizeof(typename Kernel::Shared);
  if constexpr (kSharedBytes > kDefaultSharedBytes) {
    check_cuda(cudaFuncSetAttribute(kernel_entry<Kernel, kSharedBytes>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes),
               "was asked for shared memory");
  }
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(grid.x, grid.y, grid.z);
  config.blockDim = dim3(Kernel::kThreads);
  config.dynamicSmemBytes = kSharedBytes;
  config.stream = static_cast<cudaStream_t>(queue);
  config.attrs = &attribute;
  config.numAttrs = 1;
  check_cuda(cudaLaunchKernelEx(&config, kernel_entry<Kernel, kSharedBytes>, params),
             "started a kernel");
#else
  const cuda_emulator::EarlyLaunches begin_early;
  launch<Kernel>(queue, grid, params);
#endif
}

template <class Kernel>
void launch_dependent(Stream& stream, Grid grid, const typename Kernel::Params& params) {
  check_gpu(stream, gpus_of<Kernel>());
  launch_dependent<Kernel>(stream.queue(), grid, params);
}

}  // namespace caption::kernels::cuda
