// kernels/cpu/avx512bf16/panels.h: the tier's functions that are defined in separate files.
#pragma once

#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {

// Tier::panel_gemm, or with `add` c += a * panels^T.
void panel_gemm_avx512bf16(const PanelArgs& args, bool add);
void panel8_avx512bf16(const QuantisedArgs& args);
void panel_e4m3_avx512bf16(const QuantisedArgs& args);
void panel4_avx512bf16(const QuantisedArgs& args);
void panel8a8_avx512bf16(const IntegerArgs& args);
void panel4a8_avx512bf16(const Integer4Args& args);
// Returns `tier` with packers that turn pages of bf16 and i8 into panels of bf16 pairs.
AttentionTier attention_avx512bf16(AttentionTier tier);
void set_few_queries_avx512bf16(AttentionTier& tier);
QueryPanelTier query_panels_avx512bf16();

}  // namespace caption::kernels::cpu
