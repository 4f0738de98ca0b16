#include "backend/cpu_tier.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "backend/cpu_tier_names.h"
#include "backend/internal/cpu_features.h"
#include "base/error.h"
#include "base/join.h"
#include "base/nearest.h"

namespace caption {
namespace {

constexpr std::array kTiers = {CpuTier::kReference, CpuTier::kAvx2, CpuTier::kAvx512,
                               CpuTier::kAvx512Bf16, CpuTier::kAmx};

constexpr std::array<std::string_view, 3> kAvx2Features = {"avx2", "fma", "f16c"};
constexpr std::array<std::string_view, 4> kAvx512Features = {"avx512f", "avx512bw", "avx512dq",
                                                             "avx512vl"};
constexpr std::array<std::string_view, 3> kAvx512Bf16Features = {"avx512bf16", "avx512vbmi",
                                                                 "avx512vnni"};
constexpr std::array<std::string_view, 3> kAmxFeatures = {"amx-tile", "amx-bf16", "amx-int8"};

// Returns how many of kTiers this machine can run. Tiers are cumulative, so the first one that
// lacks a feature ends the count.
std::size_t count_supported_tiers() {
  const auto first_lacking = std::find_if(kTiers.begin(), kTiers.end(), [&](CpuTier tier) {
    const std::span<const std::string_view> wanted = cpu_tier_features(tier);
    const bool has_all = std::all_of(wanted.begin(), wanted.end(), has_cpu_feature);
    return !has_all || (tier == CpuTier::kAmx && !internal::request_tile_state());
  });
  return static_cast<std::size_t>(first_lacking - kTiers.begin());
}

}  // namespace

std::string_view cpu_tier_name(CpuTier tier) {
  switch (tier) {
    case CpuTier::kReference: return "reference";
    case CpuTier::kAvx2: return "avx2";
    case CpuTier::kAvx512: return "avx512";
    case CpuTier::kAvx512Bf16: return "avx512bf16";
    case CpuTier::kAmx: return "amx";
  }
  return "?";
}

std::optional<CpuTier> cpu_tier_from_name(std::string_view name) {
  for (const CpuTier tier : kTiers) {
    if (cpu_tier_name(tier) == name) return tier;
  }
  return std::nullopt;
}

std::vector<std::string> cpu_tier_names() {
  std::vector<std::string> names;
  for (const CpuTier tier : kTiers) names.emplace_back(cpu_tier_name(tier));
  return names;
}

std::span<const std::string_view> cpu_tier_features(CpuTier tier) {
  switch (tier) {
    case CpuTier::kReference: return {};
    case CpuTier::kAvx2: return kAvx2Features;
    case CpuTier::kAvx512: return kAvx512Features;
    case CpuTier::kAvx512Bf16: return kAvx512Bf16Features;
    case CpuTier::kAmx: return kAmxFeatures;
  }
  return {};
}

bool has_cpu_feature(std::string_view name) {
  static const std::vector<std::string> kFeatures = internal::detect_cpu_features();
  return std::find(kFeatures.begin(), kFeatures.end(), name) != kFeatures.end();
}

std::span<const CpuTier> supported_cpu_tiers() {
  static const std::size_t kCount = count_supported_tiers();
  return std::span(kTiers).first(kCount);
}

CpuTier fastest_cpu_tier() { return supported_cpu_tiers().back(); }

CpuTier choose_cpu_tier(std::string_view name) {
  if (name.empty()) return fastest_cpu_tier();
  const std::span<const CpuTier> supported = supported_cpu_tiers();
  const std::optional<CpuTier> tier = cpu_tier_from_name(name);
  if (!tier) {
    const std::vector<std::string> names = cpu_tier_names();
    throw Error(ErrorCode::kUsage,
                "no CPU tier is named \"" + std::string(name) + "\"; use one of " + join(names) +
                    ", or leave out --cpu-tier and CAPTION_CPU_TIER" + did_you_mean(name, names));
  }
  if (std::find(supported.begin(), supported.end(), *tier) == supported.end()) {
    throw Error(ErrorCode::kUnavailable, "this CPU cannot run the tier \"" + std::string(name) +
                                             "\"; the fastest it can is \"" +
                                             std::string(cpu_tier_name(supported.back())) + "\"");
  }
  return *tier;
}

}  // namespace caption
