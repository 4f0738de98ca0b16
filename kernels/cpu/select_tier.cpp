#include "kernels/cpu/select_tier.h"

#include <string>

#include "base/error.h"
#include "kernels/cpu/avxvnni/integer_panels.h"

namespace caption::kernels::cpu {

#if defined(__x86_64__)
namespace {

Tier make_avx2_tier() {
  Tier tier = avx2_tier();
  if (has_cpu_feature("avxvnni")) {
    tier.panel8a8 = panel8a8_avxvnni;
    tier.panel4a8 = panel4a8_avxvnni;
  }
  return tier;
}

}  // namespace
#endif

const Tier& select_tier(CpuTier tier) {
  switch (tier) {
    case CpuTier::kReference: return reference_tier();
#if defined(__x86_64__)
    case CpuTier::kAvx2: {
      static const Tier kAvx2Tier = make_avx2_tier();
      return kAvx2Tier;
    }
    case CpuTier::kAvx512: return avx512_tier();
    case CpuTier::kAvx512Bf16: return avx512bf16_tier();
    case CpuTier::kAmx: return amx_tier();
#else
    case CpuTier::kAvx2:
    case CpuTier::kAvx512:
    case CpuTier::kAvx512Bf16:
    case CpuTier::kAmx: break;
#endif
  }
  throw Error(ErrorCode::kUnavailable, "cpu: this build has no tier \"" +
                                           std::string(cpu_tier_name(tier)) +
                                           "\"; use \"reference\"");
}

Element element_of(DType dtype) {
  switch (dtype) {
    case DType::kF32: return Element::kF32;
    case DType::kBF16: return Element::kBF16;
    case DType::kF16: return Element::kF16;
    case DType::kI8: return Element::kI8;
    default: throw_not_floating(dtype);
  }
}

}  // namespace caption::kernels::cpu
