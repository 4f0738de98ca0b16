#include "backend/cpu_tier.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "backend/stream.h"
#include "base/error.h"

using caption::choose_cpu_tier;
using caption::cpu_tier_from_name;
using caption::cpu_tier_name;
using caption::CpuTier;
using caption::Error;
using caption::supported_cpu_tiers;

namespace {

// Sets CAPTION_CPU_TIER for the duration of a scope.
class TierVariable {
 public:
  explicit TierVariable(const char* value) {
    if (const char* before = std::getenv(kName)) before_ = before;
    setenv(kName, value, 1);
  }
  ~TierVariable() {
    if (before_) {
      setenv(kName, before_->c_str(), 1);
    } else {
      unsetenv(kName);
    }
  }
  TierVariable(const TierVariable&) = delete;
  TierVariable& operator=(const TierVariable&) = delete;

 private:
  static constexpr const char* kName = "CAPTION_CPU_TIER";
  std::optional<std::string> before_;
};

}  // namespace

TEST_SUITE_BEGIN("backend/cpu_tier");

TEST_CASE("names and tiers are one to one") {
  for (const CpuTier tier :
       {CpuTier::kReference, CpuTier::kAvx2, CpuTier::kAvx512, CpuTier::kAvx512Bf16}) {
    CHECK(cpu_tier_from_name(cpu_tier_name(tier)) == tier);
  }
  CHECK(cpu_tier_from_name("") == std::nullopt);
  CHECK(cpu_tier_from_name("AVX2") == std::nullopt);
}

TEST_CASE("the reference runs everywhere and the fastest is the default") {
  REQUIRE_FALSE(supported_cpu_tiers().empty());
  CHECK(supported_cpu_tiers().front() == CpuTier::kReference);
  const TierVariable unset("");
  CHECK(choose_cpu_tier() == supported_cpu_tiers().back());
}

TEST_CASE("every tier but the reference names what it needs beyond the one before it") {
  CHECK(caption::cpu_tier_features(CpuTier::kReference).empty());
  std::set<std::string_view> seen;
  for (const CpuTier tier :
       {CpuTier::kAvx2, CpuTier::kAvx512, CpuTier::kAvx512Bf16, CpuTier::kAmx}) {
    CAPTURE(cpu_tier_name(tier));
    const auto features = caption::cpu_tier_features(tier);
    CHECK_FALSE(features.empty());
    for (const std::string_view feature : features) CHECK(seen.insert(feature).second);
  }
}

TEST_CASE("the environment forces a tier, which a stream then carries") {
  const TierVariable forced("reference");
  CHECK(choose_cpu_tier() == CpuTier::kReference);
  caption::ThreadPool pool(1);
  CHECK(caption::Stream(pool).cpu_tier() == CpuTier::kReference);
}

TEST_CASE("an unknown name is refused with the names there are") {
  const TierVariable forced("sse9");
  CHECK_THROWS_WITH_AS(choose_cpu_tier(),
                       "CAPTION_CPU_TIER: no tier is named \"sse9\"; use reference, avx2, "
                       "avx512, avx512bf16 or amx, or unset it",
                       Error);
}

TEST_SUITE_END();
