// tests/kernels/paged_cache.h: sequences in pages, computed step by step as in an engine.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "kernels/paged_attention.h"
#include "tests/kernels/testing.h"

namespace caption::testing {

// Several sequences of random q, k, v that can be written to pages in any order. Unwritten page
// slots are NaN, so that reading one shows in the result.
struct PagedModel {
  std::int64_t heads = 4, kv_heads = 2, head_dim = 24;
  std::vector<std::int64_t> lengths;
  std::vector<Tensor> q, k, v;

  PagedModel(std::int64_t heads_, std::int64_t kv_heads_, std::int64_t head_dim_,
             std::vector<std::int64_t> lengths_)
      : heads(heads_), kv_heads(kv_heads_), head_dim(head_dim_), lengths(std::move(lengths_)) {
    for (std::size_t s = 0; s < lengths.size(); ++s) {
      const auto seed = static_cast<std::uint32_t>(3 * s);
      q.push_back(random_f32({lengths[s], heads, head_dim}, seed + 1));
      k.push_back(random_f32({lengths[s], kv_heads, head_dim}, seed + 2));
      v.push_back(random_f32({lengths[s], kv_heads, head_dim}, seed + 3));
      halve_every_other(k.back());
      halve_every_other(v.back());
    }
  }
  float scale() const { return 3 / std::sqrt(static_cast<float>(head_dim)); }

 private:
  // Vectors next to each other, of heads or of tokens, then have other scales in pages of i8.
  void halve_every_other(Tensor& x) const {
    for (std::int64_t i = 0; i < x.dim(0) * kv_heads; ++i) {
      if ((i / kv_heads + i % kv_heads) % 2 == 0) continue;
      float* const vector = x.as<float>() + i * head_dim;
      std::transform(vector, vector + head_dim, vector, [](float value) { return value / 2; });
    }
  }
};

class PagedCache {
 public:
  // With a window, tokens before the window of a step's first row are overwritten with NaN, and
  // their pages leave the block table.
  PagedCache(const PagedModel& model, DType dtype, std::int64_t page_tokens,
             std::int64_t window = 0)
      : model_(model), page_tokens_(page_tokens), window_(window) {
    max_pages_ = 1;
    std::int64_t num_pages = 3;  // more than needed
    for (const std::int64_t length : model.lengths) {
      const std::int64_t pages = (length + page_tokens - 1) / page_tokens;
      max_pages_ = std::max(max_pages_, pages + 1);
      num_pages += pages;
    }
    Tensor nans(DType::kF32, {num_pages, page_tokens, model.kv_heads, model.head_dim});
    std::fill_n(nans.as<float>(), nans.num_elements(), std::numeric_limits<float>::quiet_NaN());
    if (dtype == DType::kI8) {
      k_pages_ = Tensor::zeros(dtype, nans.shape());
      v_pages_ = Tensor::zeros(dtype, nans.shape());
      Tensor nan_scales(DType::kF32, {num_pages, page_tokens, model.kv_heads});
      std::fill_n(nan_scales.as<float>(), nan_scales.num_elements(),
                  std::numeric_limits<float>::quiet_NaN());
      k_scales_ = converted(nan_scales, DType::kBF16);
      v_scales_ = converted(nan_scales, DType::kBF16);
    } else {
      k_pages_ = converted(nans, dtype);
      v_pages_ = converted(nans, dtype);
    }
    std::vector<std::int32_t> free(static_cast<std::size_t>(num_pages));
    std::iota(free.begin(), free.end(), 0);
    std::shuffle(free.begin(), free.end(), std::mt19937(7));
    for (const std::int64_t length : model.lengths) {
      std::vector<std::int32_t> table(static_cast<std::size_t>(max_pages_), -1);
      for (std::int64_t i = 0; i * page_tokens < length; ++i) {
        table[static_cast<std::size_t>(i)] = free.back();
        free.pop_back();
      }
      tables_.push_back(table);
    }
  }

  // One step: the next counts[s] tokens of each sequence in one ragged batch. The results are
  // written to their rows of `out`, one tensor per sequence.
  void step(Stream& stream, const std::vector<std::int64_t>& counts, std::vector<Tensor>& out) {
    done_.resize(counts.size(), 0);
    std::vector<std::int32_t> cu{0}, lens, slots, tables;
    const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    Tensor q(DType::kF32, {total, model_.heads, model_.head_dim});
    Tensor k(DType::kF32, {total, model_.kv_heads, model_.head_dim});
    Tensor v(DType::kF32, {total, model_.kv_heads, model_.head_dim});
    for (std::size_t s = 0; s < counts.size(); ++s) {
      copy_rows(model_.q[s], done_[s], q, cu.back(), counts[s]);
      copy_rows(model_.k[s], done_[s], k, cu.back(), counts[s]);
      copy_rows(model_.v[s], done_[s], v, cu.back(), counts[s]);
      if (window_ > 0) release(stream, s);
      for (std::int64_t i = 0; i < counts[s]; ++i) slots.push_back(slot(s, done_[s] + i));
      cu.push_back(cu.back() + static_cast<std::int32_t>(counts[s]));
      lens.push_back(static_cast<std::int32_t>(done_[s] + counts[s]));
      tables.insert(tables.end(), tables_[s].begin(), tables_[s].end());
    }
    kernels::kv_write(stream, k.view(), v.view(), indices(slots).view(), layer());
    const Tensor cu_seqlens = indices(cu);
    const Tensor context_lens = indices(lens);
    const Tensor block_tables = indices(tables);
    Tensor y(DType::kF32, {total, model_.heads, model_.head_dim});
    kernels::paged_attention(stream, q.view(),
                             {.k_pages = k_pages_.view(),
                              .v_pages = v_pages_.view(),
                              .cu_seqlens = cu_seqlens.view(),
                              .context_lens = context_lens.view(),
                              .block_tables = block_tables.view().reshape(
                                  {static_cast<std::int64_t>(counts.size()), max_pages_}),
                              .k_scales = scales_or_none(k_scales_),
                              .v_scales = scales_or_none(v_scales_),
                              .window = window_},
                             model_.scale(), y.view());
    for (std::size_t s = 0; s < counts.size(); ++s) {
      copy_rows(y, cu[s], out[s], done_[s], counts[s]);
      done_[s] += counts[s];
    }
  }

  kernels::KvLayer layer() {
    return {.k = k_pages_.view(),
            .v = v_pages_.view(),
            .k_scales = scales_or_none(k_scales_),
            .v_scales = scales_or_none(v_scales_)};
  }

 private:
  std::int32_t slot(std::size_t s, std::int64_t position) const {
    const std::int64_t page = tables_[s][static_cast<std::size_t>(position / page_tokens_)];
    return static_cast<std::int32_t>(page * page_tokens_ + position % page_tokens_);
  }
  void release(Stream& stream, std::size_t s) {
    released_.resize(tables_.size(), 0);
    const std::int64_t end = std::max<std::int64_t>(done_[s] - window_ + 1, 0);
    Tensor nans(DType::kF32, {1, model_.kv_heads, model_.head_dim});
    std::fill_n(nans.as<float>(), nans.num_elements(), std::numeric_limits<float>::quiet_NaN());
    for (std::int64_t& next = released_[s]; next < end; ++next) {
      const Tensor slots = indices({slot(s, next)});
      kernels::kv_write(stream, nans.view(), nans.view(), slots.view(), layer());
      if ((next + 1) % page_tokens_ == 0) {
        tables_[s][static_cast<std::size_t>(next / page_tokens_)] = -1;
      }
    }
  }
  static View scales_or_none(Tensor& scales) { return scales.empty() ? View() : scales.view(); }
  static void copy_rows(const Tensor& from, std::int64_t from_row, Tensor& to, std::int64_t to_row,
                        std::int64_t count) {
    const std::int64_t size = from.dim(1) * from.dim(2);
    std::copy_n(from.as<float>() + from_row * size, count * size, to.as<float>() + to_row * size);
  }

  const PagedModel& model_;
  std::int64_t page_tokens_;
  std::int64_t window_;
  std::int64_t max_pages_ = 0;
  Tensor k_pages_, v_pages_;
  Tensor k_scales_, v_scales_;  // for i8 pages
  std::vector<std::vector<std::int32_t>> tables_;
  std::vector<std::int64_t> done_;
  std::vector<std::int64_t> released_;  // tokens before the windows, by sequence
};

}  // namespace caption::testing
