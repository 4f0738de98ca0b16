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

// Fetches the cache line 12 KiB after `weights` into the second-level cache, for kernels that the
// hardware prefetcher keeps up with for up to four rows: with w8a8 on AVX512-BF16, 8 rows of a
// weight in memory then take 0.75 of the time and 16 rows 0.83; with up to five rows it is slower.
// 6 KiB are slower by a few percent, 32 KiB as fast.
static inline void fetch_far_ahead(const void* weights) {
  constexpr int kSecondLevel = 2;
  __builtin_prefetch(static_cast<const char*>(weights) + 12288, 0, kSecondLevel);
}
// Rows of a tile from which on it pays.
inline constexpr int kFarAheadRows = 6;

}  // namespace caption::kernels::cpu
