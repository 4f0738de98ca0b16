// kernels/cpu/interleave.h: brings the rows of a matrix into the order of a panel, in which the
// words of all rows at one place are adjacent (kernels/cpu/packed_weight.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace caption::kernels::cpu {

// to[i * rows.size() + r] = word i of row r, xor `flipped`. A word is 2 or 4 bytes; the last one of
// a row of `row_bytes` bytes is filled up with zeros. Rows may begin at any byte; a null row counts
// as zeros. rows.size() is a multiple of 8.
void interleave_2(std::span<const std::byte* const> rows, std::int64_t row_bytes, void* to);
void interleave_4(std::span<const std::byte* const> rows, std::int64_t row_bytes, void* to,
                  std::uint32_t flipped = 0);

// Puts the 4-bit codes of two rows, of which the even column is in the low half of a byte, or with
// `has_odd_first` in the high half, into one byte per column: those of `low` in the low half. `to`
// has 2 * num_bytes bytes. A null `high` counts as zeros.
void merge_nibbles(const std::uint8_t* low, const std::uint8_t* high, std::int64_t num_bytes,
                   std::uint8_t* to, bool has_odd_first = false);

}  // namespace caption::kernels::cpu
