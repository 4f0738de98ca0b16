#include "backend/internal/cuda_probe.h"

#include <doctest/doctest.h>

#include <string>

#include "backend/machine.h"

using caption::Machine;
using caption::internal::probe_cuda;

namespace {

// What is said of the fake driver of this name (tests/backend/CMakeLists.txt).
Machine probed(const std::string& name, bool has_nvml = true) {
  const std::string library = CAPTION_FAKE_CUDA_FOLDER "/libcaption_fake_cuda_" + name + ".so";
  const char* const nvml = has_nvml ? library.c_str() : "/nowhere/libnvidia-ml.so.1";
  Machine machine;
  probe_cuda(machine, {.driver = library.c_str(), .nvml = nvml, .least_version = 12000});
  return machine;
}

std::string kernels_here() {
  return caption::has_cuda_kernels() ? "this build has CUDA kernels"
                                     : "this build has no CUDA kernels and runs on the CPU";
}

}  // namespace

TEST_SUITE_BEGIN("backend/cuda_probe");

TEST_CASE("devices are listed with what the driver and NVML know of them") {
  const Machine machine = probed("good");
  CHECK(machine.cuda_status == "2 CUDA devices found; " + kernels_here());
  REQUIRE(machine.cuda_devices.size() == 2);
  const caption::CudaDevice& first = machine.cuda_devices[0];
  CHECK(first.name == "Fake H100");
  CHECK(first.compute_major == 9);
  CHECK(first.compute_minor == 0);
  CHECK(first.num_multiprocessors == 132);
  CHECK(first.shared_bytes_per_block == 232448);
  CHECK(first.memory_bytes == 80'000'000'000);
  CHECK(first.free_memory_bytes == 60'000'000'000);
  CHECK(machine.cuda_devices[1].name == "Fake T4");
  CHECK(machine.cuda_devices[1].compute_minor == 5);
  CHECK(first.ordinal == 0);
  CHECK(machine.cuda_devices[1].ordinal == 1);
  CHECK(machine.cuda_devices[1].free_memory_bytes == 0);  // NVML does not tell
}

TEST_CASE("without NVML devices are listed all the same") {
  const Machine machine = probed("good", false);
  REQUIRE(machine.cuda_devices.size() == 2);
  CHECK(machine.cuda_devices[0].free_memory_bytes == 0);
}

TEST_CASE("without a usable device one sentence says why") {
  struct Case {
    const char* driver;
    const char* status;
  };
  constexpr Case kCases[] = {
      {"no_device",
       "no CUDA: the driver sees no device: no CUDA-capable device is detected (CUDA "
       "error 100)"},
      {"empty", "no CUDA: the driver sees no device"},
      {"stub", "no CUDA: libcuda is the toolkit's stub: a fake error (CUDA error 34)"},
      {"old", "no CUDA: the driver is for CUDA 11.4; 12.0 or later is needed: update the driver"},
      {"failing", "CUDA failed to start: a fake error (CUDA error 999)"},
      {"losing", "CUDA failed to start: a fake error (CUDA error 719)"},
  };
  for (const Case& c : kCases) {
    CAPTURE(std::string(c.driver));
    const Machine machine = probed(c.driver);
    CHECK(machine.cuda_status == c.status);
    CHECK(machine.cuda_devices.empty());
  }
}

TEST_CASE("a driver that is not there, or lacks a function, is named with what is missing") {
  const std::string lacking = probed("lacking").cuda_status;
  CAPTURE(lacking);
  CHECK(lacking.starts_with("no CUDA: there is no NVIDIA driver, or one that is too old (/"));
  CHECK(lacking.ends_with("libcaption_fake_cuda_lacking.so has no cuGetErrorString)"));
  Machine machine;
  probe_cuda(machine, {.driver = "libcaption_nowhere.so.1"});
  CAPTURE(machine.cuda_status);
  CHECK(machine.cuda_status.starts_with(
      "no CUDA: there is no NVIDIA driver, or one that is too old (libcaption_nowhere.so.1"));
}

TEST_CASE("a driver below the major version of the build's runtime is refused with both versions") {
  const std::string driver = CAPTION_FAKE_CUDA_FOLDER "/libcaption_fake_cuda_good.so";
  Machine machine;
  probe_cuda(machine, {.driver = driver.c_str(), .least_version = 13010});
  CHECK(machine.cuda_status ==
        "no CUDA: the driver is for CUDA 13.0; 13.1 or later is needed: update the driver");
  CHECK(machine.cuda_devices.empty());
  const int least = caption::internal::least_driver_version();  // a major version
  CHECK(least >= 12000);
  CHECK(least % 1000 == 0);
}

TEST_CASE("a card that is too old is refused by name and does not hide another") {
  const Machine machine = probed("pascal");
  REQUIRE(machine.cuda_devices.size() == 1);
  CHECK(machine.cuda_devices[0].name == "Fake H100");
  CHECK(machine.cuda_status == "1 CUDA device found; " + kernels_here() +
                                   "; Fake T4 has compute capability 6.1; 7.5 or later is needed");
}

TEST_SUITE_END();
