// Blocks of kernels that a multiprocessor holds, by the rules of cuda_occupancy.h of a CUDA
// toolkit. Compiled and run by scripts/cuda/resources.py; needs no GPU.
//
// Reads lines "architecture threads registers static_shared_bytes dynamic_shared_bytes", and writes
// a line with the number of blocks for each: 0 when no block can be launched. Exits with 1 on a
// line that it cannot read, or an architecture that it does not know.
#include <cuda_occupancy.h>

#include <cstdio>

namespace {

// Source: CUDA C++ Programming Guide 13.0, "Technical Specifications per Compute Capability".
struct Limits {
  int architecture;  // 10 * major + minor
  int most_threads;  // of a multiprocessor
  int shared_kib;    // of a multiprocessor
  int block_kib;     // of shared memory, of a block
};
constexpr Limits kLimits[] = {
    {75, 1024, 64, 64},    // T4
    {80, 2048, 164, 163},  // A100
    {86, 1536, 100, 99},   // A10
    {89, 1536, 100, 99},   // L4
    {90, 2048, 228, 227},  // H100, H200
};

cudaOccDeviceProp properties_of(const Limits& limits) {
  cudaOccDeviceProp p{};
  p.computeMajor = limits.architecture / 10;
  p.computeMinor = limits.architecture % 10;
  p.maxThreadsPerBlock = 1024;
  p.maxThreadsPerMultiprocessor = limits.most_threads;
  p.regsPerBlock = 65536;
  p.regsPerMultiprocessor = 65536;
  p.warpSize = 32;
  p.sharedMemPerBlock = 48 << 10;
  p.sharedMemPerMultiprocessor = static_cast<size_t>(limits.shared_kib) << 10;
  p.numSms = 1;
  p.sharedMemPerBlockOptin = static_cast<size_t>(limits.block_kib) << 10;
  p.reservedSharedMemPerBlock = limits.architecture >= 80 ? 1024 : 0;
  return p;
}

struct Kernel {
  int threads;
  int registers;
  int static_shared_bytes;
  int dynamic_shared_bytes;
};

int count_blocks(const Limits& limits, const Kernel& kernel) {
  const cudaOccDeviceProp properties = properties_of(limits);
  cudaOccFuncAttributes attributes{};
  attributes.maxThreadsPerBlock = kernel.threads;
  attributes.numRegs = kernel.registers;
  attributes.sharedSizeBytes = static_cast<size_t>(kernel.static_shared_bytes);
  attributes.partitionedGCConfig = PARTITIONED_GC_OFF;
  attributes.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
  attributes.maxDynamicSharedSizeBytes = properties.sharedMemPerBlockOptin;
  attributes.numBlockBarriers = 1;
  const cudaOccDeviceState state{};
  cudaOccResult result{};
  const cudaOccError error = cudaOccMaxActiveBlocksPerMultiprocessor(
      &result, &properties, &attributes, &state, kernel.threads,
      static_cast<size_t>(kernel.dynamic_shared_bytes));
  return error == CUDA_OCC_SUCCESS ? result.activeBlocksPerMultiprocessor : 0;
}

}  // namespace

int main() {
  int architecture = 0;
  Kernel kernel{};
  int read = 0;
  while ((read = std::scanf("%d %d %d %d %d", &architecture, &kernel.threads, &kernel.registers,
                            &kernel.static_shared_bytes, &kernel.dynamic_shared_bytes)) == 5) {
    const Limits* known = nullptr;
    for (const Limits& limits : kLimits) {
      if (limits.architecture == architecture) known = &limits;
    }
    if (known == nullptr) return 1;
    std::printf("%d\n", count_blocks(*known, kernel));
  }
  return read == EOF ? 0 : 1;
}
