#include "backend/cpu_tier.h"

#include <doctest/doctest.h>

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu_tier_names.h"
#include "backend/stream.h"
#include "base/error.h"

using caption::choose_cpu_tier;
using caption::cpu_tier_from_name;
using caption::cpu_tier_name;
using caption::cpu_tier_names;
using caption::CpuTier;
using caption::Error;
using caption::supported_cpu_tiers;

TEST_SUITE_BEGIN("backend/cpu_tier");

TEST_CASE("the names are those of all tiers, slowest first") {
  CHECK(cpu_tier_names() ==
        std::vector<std::string>{"reference", "avx2", "avx512", "avx512bf16", "amx"});
  for (const std::string& name : cpu_tier_names()) CHECK(cpu_tier_from_name(name).has_value());
}

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
  CHECK(caption::fastest_cpu_tier() == supported_cpu_tiers().back());
  CHECK(choose_cpu_tier("") == caption::fastest_cpu_tier());
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

TEST_CASE("a named tier is chosen, and a stream carries its context's") {
  CHECK(choose_cpu_tier("reference") == CpuTier::kReference);
  const caption::Context context{.cpu_tier = CpuTier::kReference};
  caption::ThreadPool pool(1);
  const caption::Stream stream(context, pool);
  CHECK(stream.cpu_tier() == CpuTier::kReference);
  CHECK(stream.context().arithmetic() == "cpu reference");
}

TEST_CASE("an unknown name is refused with the names there are") {
  CHECK_THROWS_WITH_AS(choose_cpu_tier("sse9"),
                       "no CPU tier is named \"sse9\"; use one of reference, avx2, avx512, "
                       "avx512bf16, amx, or leave out --cpu-tier and CAPTION_CPU_TIER",
                       Error);
  CHECK_THROWS_WITH_AS(choose_cpu_tier("avx3"), doctest::Contains("; did you mean avx2?"),
                       caption::Error);
}

TEST_SUITE_END();
