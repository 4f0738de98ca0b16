// kernels/cpu/select_tier.h: from run-time choices to a tier's functions.
#pragma once

#include "backend/cpu_tier.h"
#include "kernels/cpu/tier.h"
#include "tensor/dtype.h"

namespace caption::kernels::cpu {

// Throws Error(kUnavailable) for a tier this build lacks.
const Tier& select_tier(CpuTier tier);

// f32, bf16, f16 or i8 only; throws Error(kInternal) for others.
Element element_of(DType dtype);

inline Gemm dot_of(const Tier& tier, Element element) {
  return tier.dot[static_cast<int>(element)];
}

}  // namespace caption::kernels::cpu
