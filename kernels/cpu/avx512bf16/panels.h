// kernels/cpu/avx512bf16/panels.h: the tier's functions that live in files of their own.
#pragma once

#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {

void panel8_avx512bf16(const QuantisedArgs& args);
void panel4_avx512bf16(const QuantisedArgs& args);
void panel8a8_avx512bf16(const IntegerArgs& args);
// `tier` with pages of bf16 and i8 in pairs of bf16.
AttentionTier attention_avx512bf16(AttentionTier tier);

}  // namespace caption::kernels::cpu
