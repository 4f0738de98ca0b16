// bench/weight_layout.h: what weights take in each layout the house knows (design.md §6).
//
// 8 and 4 bits hold the matrices of the decoder's layers; embedding, norms, vision tower and
// projector stay in 16 bits, as AWQ checkpoints have them; so does the LM head, but for the formats
// that are made at load (model::WeightType): w8a8 of w8a8, int8 of the others.
//   int8  1 byte, an f32 scale per 128 weights of a row                     8.25 bits per weight
//   int4  half a byte, an f32 scale and an f32 offset per 128               4.5
//   w8a8  1 byte, an f32 scale per row; LM head, tower's layers too         8.0x
//   nf4   half a byte, an f32 scale per 64 weights                          4.5
//         double quantised: the scales in 8 bits, an f32 per 256 of them    4.127
//   awq   half a byte, per 128 weights of a row an f16 scale and a 4-bit zero   4.156
// GPTQ takes what AWQ takes. Source: models.md §7.1 to §7.3.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "model/model_shape.h"

namespace caption::bench {

enum class WeightLayout { kF32, kBF16, kF16, kInt8, kInt4, kW8A8, kNf4, kNf4Double, kAwq };

std::string_view weight_layout_name(WeightLayout layout);
std::span<const WeightLayout> all_weight_layouts();

// Of one matrix, scales included.
std::int64_t matrix_bytes(const model::LinearShape& matrix, WeightLayout layout);

// Of the matrices of all decoder layers, which every step reads.
std::int64_t projection_bytes(const model::TextShape& shape, WeightLayout layout);
// Of the LM head's matrix, which every step reads, too; it is the embedding's where they are tied.
std::int64_t head_bytes(const model::TextShape& shape, WeightLayout layout);

// Of a whole model.
std::int64_t weight_bytes(const model::ModelShape& shape, WeightLayout layout);

// What a run holds when asked for a layout. f32 means the numbers of the file, as
// WeightType::kF32 does: a checkpoint in 16 bits stays in 16 bits.
std::int64_t held_weight_bytes(const model::ModelShape& shape, WeightLayout layout);

}  // namespace caption::bench
