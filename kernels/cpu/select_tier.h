// kernels/cpu/select_tier.h: maps run-time choices (CPU tier, dtype) to a tier's functions.
#pragma once

#include "backend/cpu_tier.h"
#include "kernels/cpu/tier.h"
#include "tensor/dtype.h"

namespace caption::kernels::cpu {

// Throws Error(kUnavailable) for a tier that this build lacks.
const Tier& select_tier(CpuTier tier);

// Accepts f32, bf16, f16 and i8; throws Error(kInternal) for other dtypes.
Element element_of(DType dtype);

inline Gemm dot_of(const Tier& tier, Element element) {
  return tier.dot[static_cast<int>(element)];
}

}  // namespace caption::kernels::cpu
