// kernels/internal/check_pages.h: operand checks that the operations on KV pages share.
#pragma once

#include <cstdint>
#include <string_view>

#include "kernels/internal/check.h"
#include "kernels/paged_attention.h"

namespace caption::kernels::internal {

// Checks K or V of one layer: its shape, and that it has scales exactly when its dtype is i8.
void check_page_half(const Check& check, std::string_view name, ConstView pages,
                     std::string_view scales_name, ConstView scales, const Shape& shape);

// Checks the operands of kv_write().
void check_kv_write(const Check& check, ConstView k, ConstView v, ConstView slots,
                    const KvLayer& pages);

// Checks the queries and the context of an attention.
void check_paged_context(const Check& check, ConstView q, const PagedContext& context, float scale);

// Checks that a sequence's block table [n] i32 has room for num_tokens. Its entries are on the
// device, where the kernel checks them if it checks indices at all.
void check_block_table(const Check& check, ConstView block_table, ConstView k_pages,
                       std::int64_t num_tokens);

}  // namespace caption::kernels::internal
