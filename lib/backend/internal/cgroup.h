// backend/internal/cgroup.h: the share of a machine that a container or a job leaves us.
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

// The tightest limits on the way from our control group up to the root, of cgroup v2 (cpu.max,
// memory.max) and v1 (cpu.cfs_quota_us, memory.limit_in_bytes). `mount` is /sys/fs/cgroup;
// `membership` is the text of /proc/self/cgroup. What cannot be read limits nothing.
CgroupLimits read_cgroup_limits(const std::filesystem::path& mount, std::string_view membership);

}  // namespace caption::internal
