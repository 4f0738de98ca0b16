// backend/cpu_tier.h: which instruction sets the hot CPU kernels use.
//
// Each tier gives the same bits for every run, batch size and thread count; different tiers differ
// by rounding. A Stream keeps the tier that it was constructed with.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace caption {

enum class CpuTier {
  kReference,   // plain loops, the build's baseline
  kAvx2,        // AVX2, FMA, F16C; for products of integers AVX-VNNI where it is
  kAvx512,      // AVX-512 F, BW, DQ, VL
  kAvx512Bf16,  // those of kAvx512, AVX512-BF16, VBMI and VNNI
  kAmx,         // those of kAvx512Bf16, AMX-TILE, AMX-BF16 and AMX-INT8
};

// "reference", "avx2", "avx512", "avx512bf16", "amx"
std::string_view cpu_tier_name(CpuTier tier);
std::optional<CpuTier> cpu_tier_from_name(std::string_view name);

// Returns the CPU features that a tier needs beyond those of the tiers before it, by their names in
// Machine::cpu_features. The tier kReference needs none.
std::span<const std::string_view> cpu_tier_features(CpuTier tier);

// Returns whether this CPU and operating system have a feature, by its name in
// Machine::cpu_features.
bool has_cpu_feature(std::string_view name);

// Returns the tiers that this CPU and operating system can run, slowest first; includes kReference.
std::span<const CpuTier> supported_cpu_tiers();

CpuTier fastest_cpu_tier();

// Returns the tier of that name, or the fastest supported tier for an empty name. Throws
// Error(kUsage) when no tier has the name, kUnavailable when this CPU cannot run the tier.
CpuTier choose_cpu_tier(std::string_view name);

}  // namespace caption
