// apps/caption-cli/globals.h: the options of the program that every command shares.
#pragma once

#include <string>

#include "backend/context.h"
#include "config/locations.h"

namespace caption::cli {

struct Globals {
  config::Locations locations;  // as the environment names them
  std::string cpu_tier;         // --cpu-tier or CAPTION_CPU_TIER; empty: the fastest

  // Returns the context of this process. Throws Error(kUsage | kUnavailable) as choose_cpu_tier().
  Context context(int num_threads = 1) const {
    return {
        .device = Device::kCpu, .cpu_tier = choose_cpu_tier(cpu_tier), .num_threads = num_threads};
  }
};

}  // namespace caption::cli
