#include "backend/internal/cgroup.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace fs = std::filesystem;
using caption::internal::CgroupLimits;
using caption::internal::read_cgroup_limits;

namespace {

// Creates an empty folder in place of /sys/fs/cgroup.
fs::path fresh_mount() {
  const fs::path mount = fs::path(CAPTION_TEST_TMP) / "cgroup";
  fs::remove_all(mount);
  fs::create_directories(mount);
  return mount;
}

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

}  // namespace

TEST_SUITE_BEGIN("backend/cgroup");

TEST_CASE("v2: the tightest limit on the way to the root counts") {
  const fs::path mount = fresh_mount();
  write(mount / "job/cpu.max", "400000 100000\n");
  write(mount / "job/memory.max", "1000000\n");
  write(mount / "job/step/cpu.max", "max 100000\n");
  write(mount / "job/step/memory.max", "2000000\n");
  const CgroupLimits limits = read_cgroup_limits(mount, "0::/job/step\n");
  CHECK(limits.num_cpus == 4.0);
  CHECK(limits.memory_bytes == 1000000);
}

TEST_CASE("v2: in a container, where our group's path is the host's, the mount itself counts") {
  const fs::path mount = fresh_mount();
  write(mount / "cpu.max", "150000 100000\n");
  const CgroupLimits limits = read_cgroup_limits(mount, "0::/docker/0123abcd\n");
  CHECK(limits.num_cpus == 1.5);
  CHECK_FALSE(limits.memory_bytes.has_value());
}

TEST_CASE("v1: quota and limit of the named controllers") {
  const fs::path mount = fresh_mount();
  write(mount / "cpu/jobs/cpu.cfs_quota_us", "50000\n");
  write(mount / "cpu/jobs/cpu.cfs_period_us", "100000\n");
  write(mount / "memory/jobs/memory.limit_in_bytes", "4096\n");
  const CgroupLimits limits = read_cgroup_limits(mount, "4:cpu,cpuacct:/jobs\n9:memory:/jobs\n");
  CHECK(limits.num_cpus == 0.5);
  CHECK(limits.memory_bytes == 4096);
}

TEST_CASE("v1: a quota of -1 is none") {
  const fs::path mount = fresh_mount();
  write(mount / "cpu/cpu.cfs_quota_us", "-1\n");
  write(mount / "cpu/cpu.cfs_period_us", "100000\n");
  CHECK_FALSE(read_cgroup_limits(mount, "4:cpu:/\n").num_cpus.has_value());
}

TEST_CASE("what cannot be read or parsed limits nothing") {
  const fs::path mount = fresh_mount();
  write(mount / "cpu.max", "lots of it\n");
  write(mount / "memory.max", "12 GiB\n");
  for (const char* membership : {"", "nonsense", "0::", "0::/", "::::\n0::/../..\n"}) {
    CAPTURE(membership);
    const CgroupLimits limits = read_cgroup_limits(mount, membership);
    CHECK_FALSE(limits.num_cpus.has_value());
  }
  CHECK_FALSE(read_cgroup_limits(mount / "absent", "0::/\n").memory_bytes.has_value());
}

TEST_SUITE_END();
