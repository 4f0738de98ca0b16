// tests/support/tested_context.h: the device on which the suites of engine and model run. The
// variable CAPTION_TEST_DEVICE selects the mirror (backend/mirror.h), or in executables that link it
// the emulated GPU (tests/support/cuda/emulated_runtime.h) as cuda; ctest runs both suites on each.
// Without it tests run on the CPU.
#pragma once

#include <cstdlib>
#include <string_view>

#include "backend/context.h"
#include "base/error.h"

namespace caption::testing {

inline Context tested_context(CpuTier tier = fastest_cpu_tier()) {
  const char* const name = std::getenv("CAPTION_TEST_DEVICE");
  const std::string_view device = name == nullptr ? "cpu" : name;
  CAPTION_CHECK(device == "cpu" || device == "mirror" || device == "cuda",
                "CAPTION_TEST_DEVICE is cpu, mirror or cuda");
  return {.device = device == "mirror" ? Device::kMirror
                    : device == "cuda" ? Device::kCuda
                                       : Device::kCpu,
          .cpu_tier = tier,
          .num_threads = 2};
}

}  // namespace caption::testing
