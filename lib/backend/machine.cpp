#include "backend/machine.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>

#include "backend/internal/cgroup.h"
#include "backend/internal/cpu_features.h"
#include "backend/internal/cuda_probe.h"

namespace caption {
namespace {

std::string read_cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

int count_affine_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  // The machine has more CPUs than cpu_set_t can represent (1024): count those that are online.
  return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

internal::CgroupLimits read_own_limits() {
  std::ifstream file("/proc/self/cgroup");
  std::string membership;
  // A file that cannot be read counts as an empty one; getline() does not throw.
  for (std::string line; std::getline(file, line);) membership += line + "\n";
  return internal::read_cgroup_limits("/sys/fs/cgroup", membership);
}

// What a limit of the address space (ulimit -v) leaves to this process, whose libraries take up
// some of it; std::nullopt without a limit.
std::optional<std::int64_t> address_space_left() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  std::int64_t used_pages = 0;
  std::ifstream("/proc/self/statm") >> used_pages;
  const std::int64_t used = used_pages * static_cast<std::int64_t>(sysconf(_SC_PAGESIZE));
  return std::max<std::int64_t>(0, static_cast<std::int64_t>(limit.rlim_cur) - used);
}

}  // namespace

Machine detect_machine() {
  Machine machine;
  machine.cpu_model = read_cpu_model();
  machine.cpu_features = internal::detect_cpu_features();

  const internal::CgroupLimits limits = read_own_limits();
  machine.num_cpus = count_affine_cpus();
  if (limits.num_cpus && *limits.num_cpus < machine.num_cpus) {
    machine.num_cpus = std::max(1, static_cast<int>(std::floor(*limits.num_cpus)));
  }
  machine.memory_bytes = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) *
                         static_cast<std::int64_t>(sysconf(_SC_PAGESIZE));
  if (limits.memory_bytes) {
    machine.memory_bytes = std::min(machine.memory_bytes, *limits.memory_bytes);
  }
  if (const std::optional<std::int64_t> left = address_space_left()) {
    machine.memory_bytes = std::min(machine.memory_bytes, *left);
  }

#ifdef CAPTION_ASKS_CUDA_DRIVER
  internal::probe_cuda(machine);
#else
  machine.cuda_status = "no CUDA: this build was made without it";
#endif
  return machine;
}

}  // namespace caption
