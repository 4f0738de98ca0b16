#include "backend/machine.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "backend/cpu_tier.h"

TEST_SUITE_BEGIN("backend/machine");

TEST_CASE("what is reported of this machine is plausible") {
  const caption::Machine machine = caption::detect_machine();
  CHECK_FALSE(machine.cpu_model.empty());
  CHECK(machine.num_cpus >= 1);
  CHECK(machine.memory_bytes > (64LL << 20));
  CHECK_FALSE(machine.cuda_status.empty());
  for (const caption::CudaDevice& device : machine.cuda_devices) {
    CHECK_FALSE(device.name.empty());
    CHECK(device.memory_bytes > 0);
  }
}

TEST_CASE("a limit of the address space limits the memory") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_AS, &before) == 0);
  std::int64_t used_pages = 0;
  std::ifstream("/proc/self/statm") >> used_pages;
  constexpr std::int64_t kRoom = 1LL << 30;
  rlimit limited = before;
  limited.rlim_cur = static_cast<rlim_t>(used_pages * ::sysconf(_SC_PAGESIZE) + kRoom);
  REQUIRE(::setrlimit(RLIMIT_AS, &limited) == 0);
  const std::int64_t memory_bytes = caption::detect_machine().memory_bytes;
  REQUIRE(::setrlimit(RLIMIT_AS, &before) == 0);
  CHECK(memory_bytes <= kRoom);
  CHECK(memory_bytes > kRoom / 2);
}

TEST_CASE("without devices the CUDA status says why") {
  const caption::Machine machine = caption::detect_machine();
  if (!machine.cuda_devices.empty()) return;
  CAPTURE(machine.cuda_status);
  CHECK((machine.cuda_status.starts_with("no CUDA: ") ||
         machine.cuda_status.starts_with("CUDA failed to start: ")));
}

TEST_CASE("the features hold what the fastest tier needs") {
  const std::vector<std::string> features = caption::detect_machine().cpu_features;
  const auto has = [&](const char* name) {
    return std::find(features.begin(), features.end(), name) != features.end();
  };
  const caption::CpuTier fastest = caption::supported_cpu_tiers().back();
  if (fastest >= caption::CpuTier::kAvx2) CHECK((has("avx2") && has("fma") && has("f16c")));
  if (fastest >= caption::CpuTier::kAvx512) CHECK((has("avx512f") && has("avx512bw")));
  if (fastest >= caption::CpuTier::kAvx512Bf16) CHECK(has("avx512bf16"));
}

TEST_SUITE_END();
