// bench/weight_layout.h: size of a model's weights in each supported layout.
//
// Layouts of 8 and 4 bits apply to the matrices of the decoder layers. Embedding, norms, vision
// tower and projector keep 16 bits, as in AWQ checkpoints. The LM head keeps 16 bits too, except in
// the formats that are made at load (model::WeightType): w8a8 with w8a8, int8 with the others.
//   int8  1 byte, an f32 scale per 128 weights of a row                     8.25 bits per weight
//   int4  half a byte, an f32 scale and an f32 offset per 128               4.5
//   w8a8  1 byte, an f32 scale per row; LM head, tower's layers too         8.0x
//   nf4   half a byte, an f32 scale per 64 weights                          4.5
//         double quantised: the scales in 8 bits, an f32 per 256 of them    4.127
//   awq   half a byte, per 128 weights of a row an f16 scale and a 4-bit zero   4.156
// A GPTQ checkpoint has the size of an AWQ one. Sources: nf4 and double quantisation
// arXiv:2305.14314 (QLoRA), awq arXiv:2306.00978, gptq arXiv:2210.17323.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "model/model_shape.h"

namespace caption::bench {

enum class WeightLayout { kF32, kBF16, kF16, kInt8, kInt4, kW8A8, kNf4, kNf4Double, kAwq };

std::string_view weight_layout_name(WeightLayout layout);
std::span<const WeightLayout> all_weight_layouts();

// Bytes of one matrix with its scales.
std::int64_t matrix_bytes(const model::LinearShape& matrix, WeightLayout layout);

// Bytes of the matrices of all decoder layers, which every step reads.
std::int64_t projection_bytes(const model::TextShape& shape, WeightLayout layout);
// Bytes of the LM head's matrix, which every step reads too; with tied weights it is the
// embedding's.
std::int64_t head_bytes(const model::TextShape& shape, WeightLayout layout);

// Bytes of a whole model.
std::int64_t weight_bytes(const model::ModelShape& shape, WeightLayout layout);

// Bytes that a run holds for a requested layout. kF32 keeps the numbers of the file, as
// WeightType::kF32 does: a 16-bit checkpoint stays in 16 bits.
std::int64_t held_weight_bytes(const model::ModelShape& shape, WeightLayout layout);

}  // namespace caption::bench
