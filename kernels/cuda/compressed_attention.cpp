// Operations that a GPU does not have. The engine refuses compressed attention when it is made
// (engine/internal/compression.h), so that no run comes here.
#include "kernels/compressed_attention.h"

#include "kernels/attention_mass.h"
#include "kernels/compact_kv.h"
#include "kernels/key_clusters.h"

namespace caption::kernels::impl {

void attention_mass(Cuda, Stream&, ConstView, const PagedContext&, float,
                    std::span<const AttentionWatch>) {
  refuse_compressed_attention("attention_mass");
}

void compact_kv(Cuda, Stream&, const Compaction&) { refuse_compressed_attention("compact_kv"); }

void cluster_keys(Cuda, Stream&, const KeyClusterInput&, View, View, View) {
  refuse_compressed_attention("cluster_keys");
}

}  // namespace caption::kernels::impl
