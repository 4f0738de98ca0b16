// kernels/internal/check_pages.h: what the operations on pages ask of them.
#pragma once

#include <cstdint>
#include <string_view>

#include "kernels/internal/check.h"
#include "kernels/paged_attention.h"

namespace caption::kernels::internal {

// K or V of one layer: of `shape`, with scales where the dtype has them and only there.
void check_page_half(const Check& check, std::string_view name, ConstView pages,
                     std::string_view scales_name, ConstView scales, const Shape& shape);

// The queries and the context of an attention.
void check_paged_context(const Check& check, ConstView q, const PagedContext& context, float scale);

// A sequence's pages [n] i32 on the CPU: each one of k_pages, enough of them for the tokens.
void check_block_table(const Check& check, ConstView block_table, ConstView k_pages,
                       std::int64_t num_tokens);

}  // namespace caption::kernels::internal
