// backend/internal/cgroup.h: the CPU and memory limits of this process's control group.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace caption::internal {

struct CgroupLimits {
  std::optional<double> num_cpus;  // CPU time per wall time
  std::optional<std::int64_t> memory_bytes;
};

// Returns the tightest limits of our control group and its ancestors, in cgroup v2 (cpu.max,
// memory.max) and v1 (cpu.cfs_quota_us, memory.limit_in_bytes). `mount` is /sys/fs/cgroup;
// `membership` is the text of /proc/self/cgroup. A file that cannot be read sets no limit.
CgroupLimits read_cgroup_limits(const std::filesystem::path& mount, std::string_view membership);

}  // namespace caption::internal
