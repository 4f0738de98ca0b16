// kernels/key_clusters.h: k-means over the keys of a range of a sequence's tokens, for squeezed
// attention.
//
// Works per key head on keys divided by their norms, k^ (cosine similarity; arXiv:2411.09688).
// Starts from evenly spaced keys as means m^, then repeats `iterations` times
//   cluster_of[j] = argmax_c k^[j] . m^[c], the lowest c of equal ones
//   m^[c] = the mean of the k^[j] of cluster c, divided by its norm
// (the m^ of an empty cluster does not change) and finally assigns once more. The centroids
// returned, with which queries are compared, are the means of the undivided keys. Sums run in the
// order of positions: the same keys give the same bits in any batch, with any number of threads.
#pragma once

#include <cstdint>

#include "kernels/paged_attention.h"

namespace caption::kernels {

struct KeyClusterInput {
  ConstView k_pages;
  ConstView k_scales = {};  // for i8 pages
  ConstView block_table;    // [n] i32, the sequence's pages
  std::int64_t first_token = 0;
  std::int64_t iterations = 0;
};

// centroids  [kv_heads, C, head_dim] f32, C <= kMaxKeyClusters; 0 for an empty cluster
// sizes      [kv_heads, C] i32, number of keys; 0 for an empty cluster
// cluster_of [kv_heads, N] i32, of tokens first_token, first_token + 1, ...;  1 <= C <= N
// Allocates working memory, so call it once per prompt, not in every step. Synchronous. Throws
// Error(kInternal) when shapes disagree or a page is out of range.
void cluster_keys(Stream& stream, const KeyClusterInput& input, View centroids, View sizes,
                  View cluster_of);

namespace impl {
void cluster_keys(Cpu device, Stream& stream, const KeyClusterInput& input, View centroids,
                  View sizes, View cluster_of);
void cluster_keys(Cuda device, Stream& stream, const KeyClusterInput& input, View centroids,
                  View sizes, View cluster_of);
}  // namespace impl

}  // namespace caption::kernels
