#include "kernels/key_clusters.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/paged_keys.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/select_tier.h"
#include "kernels/cpu/vectors.h"

namespace caption::kernels::impl {
namespace {

// The state of k-means for the keys of one head.
struct Clustering {
  const cpu::Tier& tier;
  std::int64_t num_tokens;
  std::int64_t num_clusters;
  std::int64_t head_dim;
  std::vector<float> keys = {};        // [num_tokens, head_dim]
  std::vector<float> directions = {};  // keys divided by their norms; a zero key stays zero
  std::vector<float> means = {};       // [num_clusters, head_dim], divided by their norms

  // cluster_of[j] = the cluster whose mean has the largest cosine similarity to key j.
  void assign(std::int32_t* cluster_of) const {
    constexpr std::int64_t kRows = 16;
    std::vector<float> similarity(static_cast<std::size_t>(kRows * num_clusters));
    for (std::int64_t first = 0; first < num_tokens; first += kRows) {
      const std::int64_t rows = std::min(kRows, num_tokens - first);
      tier.dot[static_cast<int>(cpu::Element::kF32)]({.a = directions.data() + first * head_dim,
                                                      .a_stride = head_dim,
                                                      .b = means.data(),
                                                      .b_stride = head_dim,
                                                      .c = similarity.data(),
                                                      .c_stride = num_clusters,
                                                      .m = rows,
                                                      .n = num_clusters,
                                                      .k = head_dim});
      for (std::int64_t row = 0; row < rows; ++row) {
        const auto begin = similarity.begin() + row * num_clusters;
        cluster_of[first + row] =
            static_cast<std::int32_t>(std::max_element(begin, begin + num_clusters) - begin);
      }
    }
  }

  // to[c] = the mean of the rows of `from` in cluster c; the row of an empty cluster is not
  // changed.
  void average(const std::vector<float>& from, const std::int32_t* cluster_of, float* to,
               std::int32_t* sizes) const {
    std::vector<float> sums(static_cast<std::size_t>(num_clusters * head_dim), 0.0F);
    std::fill_n(sizes, num_clusters, 0);
    for (std::int64_t j = 0; j < num_tokens; ++j) {
      ++sizes[cluster_of[j]];
      float* const sum = sums.data() + cluster_of[j] * head_dim;
      for (std::int64_t d = 0; d < head_dim; ++d) sum[d] += from.data()[j * head_dim + d];
    }
    for (std::int64_t c = 0; c < num_clusters; ++c) {
      if (sizes[c] == 0) continue;
      for (std::int64_t d = 0; d < head_dim; ++d) {
        to[c * head_dim + d] = sums.data()[c * head_dim + d] / static_cast<float>(sizes[c]);
      }
    }
  }
};

void normalise(float* x, std::int64_t n) {
  float squares = 0;
  for (std::int64_t d = 0; d < n; ++d) squares += x[d] * x[d];
  if (squares == 0) return;
  const float length = std::sqrt(squares);
  for (std::int64_t d = 0; d < n; ++d) x[d] /= length;
}

Clustering start(const cpu::Tier& tier, const KeyClusterInput& input, std::int64_t kv_head,
                 std::int64_t num_tokens, std::int64_t num_clusters) {
  const std::int64_t head_dim = input.k_pages.dim(3);
  const std::int64_t page_tokens = input.k_pages.dim(1);
  Clustering state{
      .tier = tier, .num_tokens = num_tokens, .num_clusters = num_clusters, .head_dim = head_dim};
  state.keys.resize(static_cast<std::size_t>(num_tokens * head_dim));
  for (std::int64_t j = 0; j < num_tokens; ++j) {
    const std::int64_t position = input.first_token + j;
    const std::int64_t page = input.block_table.as<std::int32_t>()[position / page_tokens];
    const std::int64_t slot = page * page_tokens + position % page_tokens;
    cpu::read_vector(input.k_pages, input.k_scales, slot * input.k_pages.dim(2) + kv_head,
                     state.keys.data() + j * head_dim);
  }
  state.directions = state.keys;
  for (std::int64_t j = 0; j < num_tokens; ++j) {
    normalise(state.directions.data() + j * head_dim, head_dim);
  }
  state.means.resize(static_cast<std::size_t>(num_clusters * head_dim));
  for (std::int64_t c = 0; c < num_clusters; ++c) {
    std::copy_n(state.directions.data() + c * num_tokens / num_clusters * head_dim, head_dim,
                state.means.data() + c * head_dim);
  }
  return state;
}

}  // namespace

void cluster_keys(Cpu, Stream& stream, const KeyClusterInput& input, View centroids, View sizes,
                  View cluster_of) {
  const cpu::Tier& tier = cpu::select_tier(stream.cpu_tier());
  const std::int64_t num_clusters = centroids.dim(1);
  const std::int64_t head_dim = centroids.dim(2);
  const std::int64_t num_tokens = cluster_of.dim(1);
  cpu::check_page_ids("cluster_keys", input.block_table, input.k_pages,
                      input.first_token + num_tokens);
  const auto work = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t kv_head = begin; kv_head < end; ++kv_head) {
      Clustering state = start(tier, input, kv_head, num_tokens, num_clusters);
      std::int32_t* const clusters = cluster_of.as<std::int32_t>() + kv_head * num_tokens;
      std::int32_t* const counts = sizes.as<std::int32_t>() + kv_head * num_clusters;
      for (std::int64_t i = 0; i < input.iterations; ++i) {
        state.assign(clusters);
        state.average(state.directions, clusters, state.means.data(), counts);
        for (std::int64_t c = 0; c < num_clusters; ++c) {
          normalise(state.means.data() + c * head_dim, head_dim);
        }
      }
      state.assign(clusters);
      float* const means = centroids.as<float>() + kv_head * num_clusters * head_dim;
      std::fill_n(means, num_clusters * head_dim, 0.0F);
      state.average(state.keys, clusters, means, counts);
    }
  };
  cpu::parallel_for(stream, centroids.dim(0), num_tokens * num_clusters * head_dim, work);
}

}  // namespace caption::kernels::impl
