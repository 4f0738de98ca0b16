// kernels/cpu/avx512bf16/pack.h: Tier's functions that pack the rows of a panel, for CPUs with
// AVX-512 BW and VBMI.
#pragma once

#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {

void pack_dwords_avx512bf16(const PanelRowsArgs& args);
void pack_words_avx512bf16(const PanelRowsArgs& args);
void pack_nibbles_avx512bf16(const PanelRowsArgs& args);
void pack_nibble_quads_avx512bf16(const PanelRowsArgs& args);
void pack_words_of_columns_avx512bf16(const PanelWordsArgs& args);
void pack_words_of_rows_avx512bf16(const PanelWordsArgs& args);
bool pack_blocks_avx512bf16(const PanelBlocksArgs& args);

}  // namespace caption::kernels::cpu
