// kernels/cpu/internal/fetch_ahead.h: prefetching of weights that are read in their order.
#pragma once

#include <cstdint>

namespace caption::kernels::cpu {

// Fetches the cache line 2 KiB after `weights` into the first-level cache. The hardware prefetcher
// alone fetches weights too late for few rows: on AVX512-BF16, a third of the time of 8 rows was
// spent waiting; half and twice this distance are slower. Fetching from where no memory is does
// nothing. Static, so that each tier's file compiles a separate copy.
static inline void fetch_ahead(const void* weights) {
  __builtin_prefetch(static_cast<const char*>(weights) + 2048);
}

// How far ahead fetch_far_ahead() fetches where weights are multiplied by several tiles of rows in
// turn, and where by a single one: with w8a8 on AVX512-BF16 16 rows are 3 to 8 % faster with the
// former and 8 rows 12 % with the latter; 64 KiB are as fast as 32.
static inline std::int64_t far_ahead_bytes(bool has_several_tiles) {
  return has_several_tiles ? 32768 : 12288;
}

// Fetches the cache line `bytes` after `weights` into the second-level cache, for kernels that the
// hardware prefetcher keeps up with for up to four rows: with w8a8 on AVX512-BF16, 8 rows of a
// weight in memory then take 0.75 of the time and 16 rows 0.8; with up to five rows it is slower.
static inline void fetch_far_ahead(const void* weights, std::int64_t bytes) {
  constexpr int kSecondLevel = 2;
  __builtin_prefetch(static_cast<const char*>(weights) + bytes, 0, kSecondLevel);
}
// Rows of a tile from which on it pays.
inline constexpr int kFarAheadRows = 6;

}  // namespace caption::kernels::cpu
