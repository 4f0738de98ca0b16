#include "kernels/rope_kv_write.h"

#include <string>
#include <utility>

#include "backend/dispatch.h"
#include "kernels/internal/attention_limits.h"
#include "kernels/internal/check.h"
#include "kernels/internal/check_pages.h"

namespace caption::kernels {

void rope_kv_write(Stream& stream, const ProjectedHeads& heads, ConstView rope_table,
                   ConstView slots, const KvLayer& pages) {
  const internal::Check check("rope_kv_write", stream);
  const auto& [q, k, v, q_norm, k_norm, eps] = heads;
  internal::check_kv_write(check, k, v, slots, pages);
  const std::int64_t head_dim = k.dim(2);
  check.rank("q", q, 3);
  check.f32("q", q, {k.dim(0), q.dim(1), head_dim});
  if (head_dim % 2 != 0 || head_dim > internal::kMaxHeadDim) {
    check.fail("head_dim is " + std::to_string(head_dim) + "; wanted an even one, at most 256");
  }
  check.f32("rope_table", rope_table, {k.dim(0), head_dim});
  check.dense("rope_table", rope_table);
  if (q_norm.empty() != k_norm.empty()) check.fail("one of q and k has a norm, the other has none");
  if (!q_norm.empty()) {
    for (const auto& [name, weight] : {std::pair("q_norm", q_norm), {"k_norm", k_norm}}) {
      check.floating(name, weight, {head_dim});
      check.dense(name, weight);
    }
    if (eps <= 0) check.fail("eps is not positive");
  }
  dispatch(stream.device(), [&](auto device) {
    impl::rope_kv_write(device, stream, heads, rope_table, slots, pages);
  });
}

}  // namespace caption::kernels
