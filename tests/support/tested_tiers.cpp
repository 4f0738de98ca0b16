#include "tests/support/tested_tiers.h"

#include <algorithm>

namespace caption::testing {
namespace {

constexpr CpuTier kAllTiers[] = {CpuTier::kReference, CpuTier::kAvx2, CpuTier::kAvx512,
                                 CpuTier::kAvx512Bf16, CpuTier::kAmx};

}  // namespace

AmxTierRuns where_amx_tier_runs() {
  const auto tiers = supported_cpu_tiers();
  const auto runs = [&](CpuTier tier) {
    return std::find(tiers.begin(), tiers.end(), tier) != tiers.end();
  };
  if (runs(CpuTier::kAmx)) return AmxTierRuns::kOnTheCpu;
#if defined(__x86_64__) && defined(__linux__)
  if (runs(CpuTier::kAvx512Bf16)) return AmxTierRuns::kEmulated;
#endif
  return AmxTierRuns::kNowhere;
}

TestedTiers::TestedTiers() : tiers_(supported_cpu_tiers()) {
  if (where_amx_tier_runs() != AmxTierRuns::kEmulated) return;
  tiers_ = kAllTiers;
  emulator_ = std::make_unique<AmxEmulator>();
}

}  // namespace caption::testing
