// tests/support/cuda/launch_dump.h: writes launches and the memory before and after them to files,
// for scripts/cuda/ptx_check.py, which runs nvcc's code of the same kernels on them.
//
//   CAPTION_CUDA_DUMP=FOLDER build/auto/tests/cuda/caption_cuda_test
//
// A launch is written when no fault is found in it, its device memory and its threads are few, and
// the process has written fewer than kMostDumps launches of the kernel, fewer than kMostDumpsOfGrid
// of them with the same grid and none with the same parameters, but for addresses. Its folder,
// FOLDER/PROCESS-NUMBER, has four files:
//   params       the bytes of the kernel's Params
//   before       the bytes of all allocations, one after another; 0xFF where nobody has written
//   after        the same bytes when the launch is complete
//   launch.json  {"kernel": "NAMESPACE::Kernel<4>", "source": "norm.cu", "grid": [x, y, z],
//                "threads": per block, "shared_bytes": per block, "sums": "ampere", "hopper" or
//                "fused", "allocations": [[address, bytes], ...]}; written last
// Addresses in params and memory are those of the allocations.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tests/support/cuda/emulator.h"

namespace caption::cuda_emulator {

class LaunchDump {
 public:
  // The first two limit the launches of a kernel with one arithmetic of tensor cores.
  static constexpr std::size_t kMostDumps = 12;
  static constexpr int kMostDumpsOfGrid = 3;
  static constexpr std::size_t kMostBytes = std::size_t{2} << 20;
  static constexpr std::size_t kMostThreads = 1 << 15;

  // To be made before the launch, which must outlive it. Does nothing unless the environment names
  // a folder. Throws Error(kInternal) when the folder cannot be written.
  LaunchDump(const Launch& launch, TensorCoreSums sums);
  // To be called when the launch is complete and had no fault.
  void write() const;

 private:
  const Launch& launch_;
  TensorCoreSums sums_;
  bool is_chosen_ = false;
  std::vector<std::byte> params_;
  std::vector<std::byte> before_;
};

}  // namespace caption::cuda_emulator
