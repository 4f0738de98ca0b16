// kernels/cpu/paged_keys.h: one sequence's keys and values for one key head, in the form that
// attend() takes, and the bounds checks that precede attention.
#pragma once

#include <cstdint>
#include <string_view>

#include "kernels/cpu/attend.h"
#include "kernels/paged_attention.h"

namespace caption::kernels::cpu {

// Throws Error(kInternal) unless every index that attention follows stays inside the pages and the
// query rows.
void check_context(std::string_view op, const PagedContext& context, std::int64_t num_rows);

// Throws Error(kInternal) unless the pages of the first `num_tokens` tokens are pages of k_pages.
void check_page_ids(std::string_view op, ConstView block_table, ConstView k_pages,
                    std::int64_t num_tokens);

Keys paged_keys(const PagedContext& context, std::int64_t sequence, std::int64_t kv_head);

}  // namespace caption::kernels::cpu
