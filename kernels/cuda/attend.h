// kernels/cuda/attend.h: the attention of rows of queries to keys in pages or in frames, for
// attention() and paged_attention().
#pragma once

#include "backend/stream.h"
#include "kernels/attention.h"
#include "kernels/cuda/attend.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/paged_attention.h"

namespace caption::kernels::cuda {

// Throws Error(kUnavailable) for compressed attention.
AttendParams paged_operands(ConstView q, const PagedContext& context, float scale, View y);
// Throws Error(kInternal) when k and v have different row strides.
AttendParams dense_operands(const AttentionInput& input, View y);

// Whether a block folds all splits of its rows, or a block attends to each split. Both give the
// same bits. kAuto: splits where rows are too few to keep a GPU busy otherwise.
enum class Splitting { kAuto, kNone, kAll };

// Enqueues the attention that `params` describes (states and num_splits are set here), with the
// states of splits in the stream's scratch memory.
void attend(Stream& stream, AttendParams params, Splitting splitting = Splitting::kAuto);

// Every product in f32, in the order of its factors; for all dtypes and dimensions. Expects
// params.states and num_splits.
void attend_f32(Stream& stream, const AttendParams& params);

// Products on tensor cores, of queries and probabilities that are rounded to the dtype of the keys,
// with i8 to bf16. bf16 needs sm_80. Expects params.states and num_splits.
void attend_tiles(Stream& stream, const AttendParams& params);
// Whether attend_tiles() takes such keys: 16 bits with head_dim a multiple of 8, or i8 of 16, from
// 32 to 128, and vectors aligned to 16 bytes.
bool attends_tiles(const AttendParams& params);

// A block per tile of tile_rows rows, as find_tile() counts them, key head and, with states, split.
// The batch may have fewer tiles and splits than the grid: the host does not know its lengths.
Grid grid_of_tiles(const AttendParams& params, int tile_rows);

}  // namespace caption::kernels::cuda
