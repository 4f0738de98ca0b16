#include "model/decoder_layer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/norm.h"
#include "kernels/paged_attention.h"
#include "kernels/rope.h"
#include "kernels/rope_kv_write.h"
#include "kernels/swiglu.h"
#include "model/internal/rope_axis.h"

namespace caption::model {

namespace {

template <class Product>
void multiply_parts(const DenseView& layer, ConstView x, View y, const OnWork& on_work,
                    const Product& product) {
  const std::int64_t rows = x.dim(0);
  for (std::int64_t first = 0; first < rows; first += kRowsOfPart) {
    const std::int64_t count = std::min(kRowsOfPart, rows - first);
    product(x.rows(first, count), y.rows(first, count));
    report_work(on_work, count * layer.weight.num_elements());
  }
}

}  // namespace

void apply_dense(Stream& stream, const DenseView& layer, ConstView x, View y,
                 const OnWork& on_work) {
  multiply_parts(layer, x, y, on_work, [&](ConstView rows, View out) {
    kernels::linear(stream, rows, layer.weight, layer.bias, out);
  });
}

void add_dense(Stream& stream, const DenseView& layer, ConstView x, View y, const OnWork& on_work) {
  multiply_parts(layer, x, y, on_work, [&](ConstView rows, View out) {
    kernels::linear_add(stream, rows, layer.weight, layer.bias, out);
  });
}

PromptPositions::PromptPositions(Stream& stream, const DecoderSpec& spec,
                                 std::span<const std::int32_t> positions) {
  const auto tokens = std::ssize(positions) / spec.position_axes();
  table_ = Tensor(DType::kF32, {tokens, spec.head_dim});
  const RotaryFrequencies rotary = make_rotary_frequencies(spec.rope, spec.head_dim);
  const Tensor axis = make_rope_axis(spec);
  const ConstView flat = view_of(positions);
  kernels::rope_table(
      stream,
      {.positions = spec.has_mrope() ? flat.reshape({spec.position_axes(), tokens}) : flat,
       .inv_freq = rotary.inv_freq.view(),
       .axis = spec.has_mrope() ? axis.view() : ConstView{},
       .scale = rotary.attention_scaling},
      table_.view());
}

void DecoderLayer::attention_input(const DecoderLayerViews& layer, ConstView x, View y) const {
  kernels::rms_norm(stream_, x, layer.input_norm, spec_.rms_norm_eps, y);
}

void DecoderLayer::attend(const DecoderLayerViews& layer, const PromptPositions& positions,
                          ConstView normed, View y) const {
  const std::int64_t tokens = normed.dim(0);
  const std::int64_t head_dim = spec_.head_dim;
  Tensor q_rows(DType::kF32, {tokens, spec_.num_heads, head_dim});
  Tensor k_rows(DType::kF32, {tokens, spec_.num_kv_heads, head_dim});
  Tensor v_rows(DType::kF32, k_rows.shape());
  // One page holds the prompt; attention reads K and V from pages of the same shape.
  const Shape page = {1, tokens, spec_.num_kv_heads, head_dim};
  Tensor k_page(DType::kF32, page);
  Tensor v_page(DType::kF32, page);
  const View q = q_rows.view();
  const View k = k_rows.view();
  apply_dense(stream_, layer.q, normed, q.reshape({tokens, spec_.q_dim()}), on_work_);
  apply_dense(stream_, layer.k, normed, k.reshape({tokens, spec_.kv_dim()}), on_work_);
  apply_dense(stream_, layer.v, normed, v_rows.view().reshape({tokens, spec_.kv_dim()}), on_work_);
  std::vector<std::int32_t> slots(static_cast<std::size_t>(tokens));
  std::iota(slots.begin(), slots.end(), 0);
  const kernels::KvLayer pages{.k = k_page.view(), .v = v_page.view()};
  kernels::rope_kv_write(stream_,
                         {.q = q,
                          .k = k,
                          .v = v_rows.view(),
                          .q_norm = layer.q_norm,
                          .k_norm = layer.k_norm,
                          .eps = spec_.rms_norm_eps},
                         positions.table(), view_of(std::span<const std::int32_t>(slots)), pages);
  const View out = y.reshape(q.shape());
  const Prompt prompt{.q = q, .k_pages = pages.k, .v_pages = pages.v};
  for (std::int64_t first = 0; first < tokens; first += kRowsOfPart) {
    const std::int64_t count = std::min(kRowsOfPart, tokens - first);
    attend_rows(prompt, first, count, out.rows(first, count));
    // first + count / 2 keys for each query on average, and as many values.
    report_work(on_work_, (2 * first + count) * count * spec_.q_dim());
  }
}

// The rows [first, first + count) of the prompt are the last ones of a context that ends with them.
void DecoderLayer::attend_rows(const Prompt& prompt, std::int64_t first, std::int64_t count,
                               View y) const {
  const std::int32_t cu_seqlens[] = {0, static_cast<std::int32_t>(count)};
  const auto context_len = static_cast<std::int32_t>(first + count);
  const std::int32_t first_page = 0;
  const kernels::PagedContext context{
      .k_pages = prompt.k_pages,
      .v_pages = prompt.v_pages,
      .cu_seqlens = view_of(std::span<const std::int32_t>(cu_seqlens)),
      .context_lens = view_of(std::span(&context_len, 1)),
      .block_tables = view_of(std::span(&first_page, 1)).reshape({1, 1}),
      .window = spec_.window_of(index_)};
  const float scale = 1.0F / std::sqrt(static_cast<float>(spec_.head_dim));
  kernels::paged_attention(stream_, prompt.q.rows(first, count), context, scale, y);
}

void DecoderLayer::mlp_input(const DecoderLayerViews& layer, ConstView x, View y) const {
  kernels::rms_norm(stream_, x, layer.post_attention_norm, spec_.rms_norm_eps, y);
}

void DecoderLayer::gate_and_up(const DecoderLayerViews& layer, ConstView normed, View y) const {
  Tensor up(DType::kF32, y.shape());
  apply_dense(stream_, layer.gate, normed, y, on_work_);
  apply_dense(stream_, layer.up, normed, up.view(), on_work_);
  kernels::swiglu(stream_, y, up.view(), y);
}

}  // namespace caption::model
