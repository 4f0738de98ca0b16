// tests/kernels/one_layer.h: two sequences in the pages of one layer, and steps that attend to
// them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/cpu/vectors.h"
#include "kernels/key_clusters.h"
#include "kernels/paged_attention.h"
#include "tests/kernels/testing.h"

namespace caption::testing {

inline constexpr std::int64_t kPageTokens = 5;
inline constexpr DType kPageDTypes[] = {DType::kF32, DType::kBF16, DType::kF16, DType::kI8};

// Sequence 0 has `length` tokens in pages assigned in descending order, sequence 1 has 7 tokens.
struct Layer {
  Layer(DType dtype, std::int64_t length, std::int64_t heads, std::int64_t kv_heads,
        std::int64_t head_dim)
      : length_(length),
        q(random_f32({length + 7, heads, head_dim}, 1)),
        k(random_f32({length + 7, kv_heads, head_dim}, 2)),
        v(random_f32({length + 7, kv_heads, head_dim}, 3)) {
    max_pages = (length + kPageTokens - 1) / kPageTokens + 2;
    const Shape shape{max_pages + 2, kPageTokens, kv_heads, head_dim};
    k_pages = Tensor::zeros(dtype, shape);
    v_pages = Tensor::zeros(dtype, shape);
    if (dtype == DType::kI8) {
      k_scales = Tensor::zeros(DType::kBF16, {shape[0], shape[1], shape[2]});
      v_scales = Tensor::zeros(DType::kBF16, {shape[0], shape[1], shape[2]});
    }
    for (std::int64_t i = 0; i < max_pages; ++i) {
      table.push_back(static_cast<std::int32_t>(max_pages + 1 - i));
    }
    table.push_back(0);
    table.push_back(1);
    table.resize(static_cast<std::size_t>(2 * max_pages), -1);
  }

  kernels::KvLayer pages() {
    return {.k = k_pages.view(),
            .v = v_pages.view(),
            .k_scales = k_scales.empty() ? View() : k_scales.view(),
            .v_scales = v_scales.empty() ? View() : v_scales.view()};
  }
  std::int32_t slot(std::int64_t sequence, std::int64_t position) const {
    const auto page = static_cast<std::size_t>(sequence * max_pages + position / kPageTokens);
    return static_cast<std::int32_t>(table[page] * kPageTokens + position % kPageTokens);
  }
  void write(Stream& stream) {
    std::vector<std::int32_t> slots;
    for (std::int64_t t = 0; t < length_; ++t) slots.push_back(slot(0, t));
    for (std::int64_t t = 0; t < 7; ++t) slots.push_back(slot(1, t));
    kernels::kv_write(stream, k.view(), v.view(), indices(slots).view(), pages());
  }
  // Returns a vector of sequence 0 as stored.
  std::vector<double> stored(bool is_k, std::int64_t position, std::int64_t kv_head) {
    std::vector<float> x(static_cast<std::size_t>(k.dim(2)));
    const kernels::KvLayer layer = pages();
    kernels::cpu::read_vector(is_k ? layer.k : layer.v, is_k ? layer.k_scales : layer.v_scales,
                              slot(0, position) * k.dim(1) + kv_head, x.data());
    return {x.begin(), x.end()};
  }

  std::int64_t length_;
  std::int64_t max_pages = 0;
  Tensor q, k, v;
  Tensor k_pages, v_pages, k_scales, v_scales;
  std::vector<std::int32_t> table;  // [2, max_pages]
};

// A batch of the last `rows` rows of sequence 0 with `context_len` tokens, then all of sequence 1.
struct Batch {
  Batch(Layer& layer, std::int64_t rows, std::int64_t context_len)
      : q(DType::kF32, {rows + 7, layer.q.dim(1), layer.q.dim(2)}),
        cu(indices({0, static_cast<std::int32_t>(rows), static_cast<std::int32_t>(rows + 7)})),
        lens(indices({static_cast<std::int32_t>(context_len), 7})),
        tables(indices(layer.table)) {
    const std::int64_t size = q.dim(1) * q.dim(2);
    std::copy_n(layer.q.as<float>() + (context_len - rows) * size, rows * size, q.as<float>());
    std::copy_n(layer.q.as<float>() + layer.length_ * size, 7 * size, q.as<float>() + rows * size);
    const kernels::KvLayer pages = layer.pages();
    context = {.k_pages = pages.k,
               .v_pages = pages.v,
               .cu_seqlens = cu.view(),
               .context_lens = lens.view(),
               .block_tables = tables.view().reshape({2, layer.max_pages}),
               .k_scales = pages.k_scales,
               .v_scales = pages.v_scales};
  }
  Tensor attend(Stream& stream) const {
    Tensor y(DType::kF32, q.shape());
    kernels::paged_attention(stream, q.view(), context, kScale, y.view());
    return y;
  }
  static constexpr float kScale = 0.7F;
  Tensor q, cu, lens, tables;
  kernels::PagedContext context;
};

struct Clusters {
  Clusters(Stream& stream, Layer& layer, std::int64_t first, std::int64_t count,
           std::int64_t num_clusters)
      : centroids(DType::kF32, {layer.k.dim(1), num_clusters, layer.k.dim(2)}),
        sizes(DType::kI32, {layer.k.dim(1), num_clusters}),
        cluster_of(DType::kI32, {layer.k.dim(1), count}) {
    const Tensor table = indices({layer.table.begin(), layer.table.begin() + layer.max_pages});
    kernels::cluster_keys(stream,
                          {.k_pages = layer.pages().k,
                           .k_scales = layer.pages().k_scales,
                           .block_table = table.view(),
                           .first_token = first,
                           .iterations = 6},
                          centroids.view(), sizes.view(), cluster_of.view());
    view = {.centroids = centroids.view(),
            .sizes = sizes.view(),
            .cluster_of = cluster_of.view(),
            .first_token = first};
  }
  Tensor centroids, sizes, cluster_of;
  kernels::KeyClusters view;
};

}  // namespace caption::testing
