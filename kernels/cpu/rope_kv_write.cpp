// The operations one after the other: on the CPU the heads of a step are in the cache from one to
// the next.
#include "kernels/rope_kv_write.h"

#include "kernels/norm.h"
#include "kernels/rope.h"

namespace caption::kernels::impl {

void rope_kv_write(Cpu device, Stream& stream, const ProjectedHeads& heads, ConstView rope_table,
                   ConstView slots, const KvLayer& pages) {
  if (!heads.q_norm.empty()) {
    rms_norm(device, stream, {.x = heads.q, .weight = heads.q_norm, .eps = heads.eps}, heads.q);
    rms_norm(device, stream, {.x = heads.k, .weight = heads.k_norm, .eps = heads.eps}, heads.k);
  }
  rope(device, stream, rope_table, heads.q);
  rope(device, stream, rope_table, heads.k);
  kv_write(device, stream, heads.k, heads.v, slots, pages);
}

}  // namespace caption::kernels::impl
