// tests/support/tested_context.h: the device on which the suites of engine and model run. The
// variable CAPTION_TEST_DEVICE=mirror selects the mirror (backend/mirror.h), which ctest does in a
// second run of both suites; without it tests run on the CPU.
#pragma once

#include <cstdlib>
#include <string_view>

#include "backend/context.h"
#include "base/error.h"

namespace caption::testing {

inline Context tested_context(CpuTier tier = fastest_cpu_tier()) {
  const char* const name = std::getenv("CAPTION_TEST_DEVICE");
  const std::string_view device = name == nullptr ? "cpu" : name;
  CAPTION_CHECK(device == "cpu" || device == "mirror", "CAPTION_TEST_DEVICE is cpu or mirror");
  return {.device = device == "mirror" ? Device::kMirror : Device::kCpu,
          .cpu_tier = tier,
          .num_threads = 2};
}

}  // namespace caption::testing
