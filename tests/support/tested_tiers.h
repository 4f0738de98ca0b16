// tests/support/tested_tiers.h: the tiers that tests run, and where the last of them runs.
#pragma once

#include <memory>
#include <span>

#include "backend/cpu_tier.h"
#include "tests/support/amx_emulator.h"

namespace caption::testing {

enum class AmxTierRuns {
  kOnTheCpu,
  kEmulated,  // everything but AMX's own instructions on the CPU
  kNowhere,   // the tier needs AVX-512 with BF16, VBMI and VNNI, too
};
AmxTierRuns where_amx_tier_runs();

// supported_cpu_tiers(), and the AMX tier where it can be emulated: for this object's life, in
//
//   for (const CpuTier tier : TestedTiers()) { ... }
class TestedTiers {
 public:
  TestedTiers();
  auto begin() const { return tiers_.begin(); }
  auto end() const { return tiers_.end(); }

 private:
  std::span<const CpuTier> tiers_;
  std::unique_ptr<AmxEmulator> emulator_;
};

}  // namespace caption::testing
