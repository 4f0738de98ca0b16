// weights/ggml_encode.h: rounds rows of numbers to the element types of GGUF files.
//   F32   x                       F16, BF16  the nearest number, ties to even
//   Q8_0  d = max|x| / 127, q = round(x / d), halves away from zero
//   Q4_0  d = m / -8 for the first m of the largest magnitude, q = min(trunc(x / d + 8.5), 15)
// d is rounded to f16 after the codes are chosen, and 1 / d is rounded before it is multiplied.
//
// Source: gguf-py 0.19 (ggml-org/llama.cpp, gguf-py/gguf/quants.py) and the reference rows of
// ggml-quants.c, with the same bits (tests/golden/gguf_write).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "weights/ggml_type.h"

namespace caption::weights {

// Whether encode_rows() writes the type: F32, F16, BF16, Q8_0 and Q4_0.
bool is_encoded(GgmlType type);

// The bytes of `num_values` numbers, a multiple of the type's block.
std::size_t encoded_bytes(GgmlType type, std::int64_t num_values);

// Writes the blocks of `values`, whole rows one after the other whose lengths are multiples of the
// block, to `bytes`, of the size encoded_bytes(). Thread-safe. Throws Error(kBadModel) "a weight is
// not a finite number", or "... exceeds 65504, the largest number of f16" for a weight or a scale
// that f16 cannot hold; kInternal for another type or size.
void encode_rows(GgmlType type, std::span<const float> values, std::span<std::byte> bytes);

}  // namespace caption::weights
