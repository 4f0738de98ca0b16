// backend/cpu_tier.h: which instruction sets the hot CPU kernels use.
//
// Each tier gives the same bits on every run, batch size and thread count; tiers differ from one
// another by rounding. A tier is chosen once, at start, and carried by the Stream.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace caption {

enum class CpuTier {
  kReference,   // plain loops, the build's baseline
  kAvx2,        // AVX2, FMA, F16C
  kAvx512,      // AVX-512 F, BW, DQ, VL
  kAvx512Bf16,  // those, AVX512-BF16, VBMI and VNNI
  kAmx,         // those, AMX-TILE, AMX-BF16 and AMX-INT8
};

// "reference", "avx2", "avx512", "avx512bf16", "amx"
std::string_view cpu_tier_name(CpuTier tier);
std::optional<CpuTier> cpu_tier_from_name(std::string_view name);

// Returns the CPU features that a tier needs beyond those of the tiers before it, by the names that
// Machine::cpu_features has. The tier kReference needs none.
std::span<const std::string_view> cpu_tier_features(CpuTier tier);

// The tiers that this CPU and operating system can run, slowest first; kReference always.
std::span<const CpuTier> supported_cpu_tiers();

// The fastest of them, or the one named by CAPTION_CPU_TIER. Throws Error(kUsage) when that names
// no tier, kUnavailable when this CPU cannot run it.
CpuTier choose_cpu_tier();

}  // namespace caption
