#include "kernels/key_clusters.h"

#include <string>

#include "backend/dispatch.h"
#include "kernels/internal/attention_limits.h"
#include "kernels/internal/check.h"
#include "kernels/internal/check_pages.h"

namespace caption::kernels {

void cluster_keys(Stream& stream, const KeyClusterInput& input, View centroids, View sizes,
                  View cluster_of) {
  const internal::Check check("cluster_keys", stream);
  check.rank("k_pages", input.k_pages, 4);
  internal::check_page_half(check, "k_pages", input.k_pages, "k_scales", input.k_scales,
                            input.k_pages.shape());
  check.rank("centroids", centroids, 3);
  check.rank("cluster_of", cluster_of, 2);
  const std::int64_t kv_heads = input.k_pages.dim(2);
  const std::int64_t head_dim = input.k_pages.dim(3);
  const std::int64_t count = centroids.dim(1);
  const std::int64_t num_tokens = cluster_of.dim(1);
  check.f32("centroids", centroids, {kv_heads, count, head_dim});
  check.i32("sizes", sizes, {kv_heads, count});
  check.i32("cluster_of", cluster_of, {kv_heads, num_tokens});
  check.dense("centroids", centroids);
  check.dense("sizes", sizes);
  check.dense("cluster_of", cluster_of);
  if (count < 1 || count > kMaxKeyClusters || count > num_tokens) {
    check.fail(std::to_string(count) + " clusters of " + std::to_string(num_tokens) +
               " tokens; wanted 1 to the tokens, at most " + std::to_string(kMaxKeyClusters));
  }
  if (input.first_token < 0 || input.iterations < 0) check.fail("a count is negative");
  internal::check_attention_limits(check, head_dim, 1);
  internal::check_block_table(check, input.block_table, input.k_pages,
                              input.first_token + num_tokens);
  dispatch(stream.device(), [&](auto device) {
    impl::cluster_keys(device, stream, input, centroids, sizes, cluster_of);
  });
}

}  // namespace caption::kernels
