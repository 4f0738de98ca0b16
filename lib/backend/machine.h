// backend/machine.h: the hardware of this machine, as `inspect --machine` prints it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace caption {

struct CudaDevice {
  std::string name;
  int ordinal = 0;  // the driver's number, which counts devices that kernels cannot run on as well
  int compute_major = 0;
  int compute_minor = 0;
  int num_multiprocessors = 0;
  int shared_bytes_per_block = 0;  // the most that a launch may ask for
  std::int64_t memory_bytes = 0;
  std::int64_t free_memory_bytes = 0;  // bytes that no process uses; 0 where NVML does not tell
};

struct Machine {
  std::string cpu_model;
  int num_cpus = 1;  // usable by this process (affinity, cgroup quota)
  // Memory of the machine, or what the cgroup or a limit of the address space (ulimit -v) leaves of
  // it.
  std::int64_t memory_bytes = 0;
  std::vector<std::string> cpu_features;  // named as in CPUID: "avx2", "avx512bf16", "amx-bf16"
  std::vector<CudaDevice> cuda_devices;
  std::string cuda_status;  // a sentence: why CUDA is or is not usable here
};

// Asks the operating system and, in builds for CUDA, its driver. What cannot be read keeps its
// default value; a model of the CPU that cannot is "unknown". Thread-safe.
Machine detect_machine();

// Returns whether this build contains CUDA kernels.
bool has_cuda_kernels();

}  // namespace caption
