// kernels/cpu/avx2/pack.h: Tier's functions that pack weights, for CPUs with AVX2 and F16C.
#pragma once

#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {

void pack_dwords_avx2(const PanelRowsArgs& args);
void pack_words_avx2(const PanelRowsArgs& args);
bool pack_e4m3_avx2(const PanelRowsArgs& args);
void pack_nibbles_avx2(const PanelRowsArgs& args);
void pack_nibble_quads_avx2(const PanelRowsArgs& args);
void pack_words_of_columns_avx2(const PanelWordsArgs& args);
void pack_words_of_rows_avx2(const PanelWordsArgs& args);
void pack_ordered_words_avx2(const OrderedWordsArgs& args);
bool pack_blocks_avx2(const PanelBlocksArgs& args);
bool pack_scales_avx2(const PanelScalesArgs& args);
void finish_packing_avx2();
void round_numbers_avx2(const void* x, Element element, std::uint16_t* y, std::int64_t n);

}  // namespace caption::kernels::cpu
