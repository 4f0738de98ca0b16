// kernels/key_clusters.h: k-means over the keys of a stretch of a sequence, for squeezed attention.
//
// Per key head, on keys divided by their norms (cosine similarity; arXiv:2411.09688): starts from
// keys at even distances, then `iterations` times
//   cluster_of[j] = argmax_c k^[j] . m^[c], the lowest c of equals;   m[c] = mean of its k^[j],
// divided by its norm (a cluster without keys keeps its m), and assigns once more at the end. The centroid that queries
// are compared with is the mean of the cluster's keys as they are. Sums run in the order of
// positions: the same keys give the same bits in any batch, on any number of threads.
#pragma once

#include <cstdint>

#include "kernels/paged_attention.h"

namespace caption::kernels {

struct KeyClusterInput {
  ConstView k_pages;
  ConstView k_scales = {};  // of pages of i8
  ConstView block_table;    // [n] i32, the sequence's pages
  std::int64_t first_token = 0;
  std::int64_t iterations = 0;
};

// centroids [kv_heads, C, head_dim] f32, C <= kMaxKeyClusters
// sizes     [kv_heads, C] i32; 0 where no key is nearest (its centroid is 0)
// cluster_of [kv_heads, N] i32: of tokens first_token, first_token + 1, ...;  1 <= C <= N
// Allocates working memory: for the end of a prompt, not for every step. Returns when it has run.
// Throws Error(kInternal) when shapes disagree or a page is out of range.
void cluster_keys(Stream& stream, const KeyClusterInput& input, View centroids, View sizes,
                  View cluster_of);

namespace impl {
void cluster_keys(Cpu device, Stream& stream, const KeyClusterInput& input, View centroids,
                  View sizes, View cluster_of);
void cluster_keys(Cuda device, Stream& stream, const KeyClusterInput& input, View centroids,
                  View sizes, View cluster_of);
}  // namespace impl

}  // namespace caption::kernels
