// backend/machine.h: what this machine has; asked once at start, printed by `inspect --machine`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace caption {

struct CudaDevice {
  std::string name;
  int compute_major = 0;
  int compute_minor = 0;
  std::int64_t memory_bytes = 0;
};

struct Machine {
  std::string cpu_model;
  int num_cpus = 1;                       // that this process may use (affinity and cgroup quota)
  std::int64_t memory_bytes = 0;          // of the machine, or of the cgroup when smaller
  std::vector<std::string> cpu_features;  // "avx2", "avx512bf16", "amx-bf16", ... as CPUID has them
  std::vector<CudaDevice> cuda_devices;
  std::string cuda_status;  // one sentence: why CUDA is or is not usable here
};

Machine detect_machine();

// Whether this build contains CUDA kernels.
bool has_cuda_kernels();

}  // namespace caption
