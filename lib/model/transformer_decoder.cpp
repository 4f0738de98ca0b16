#include "model/internal/transformer_decoder.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "kernels/embedding.h"
#include "kernels/linear.h"
#include "kernels/norm.h"
#include "kernels/norm_linear.h"
#include "kernels/paged_attention.h"
#include "kernels/rope.h"
#include "kernels/rope_kv_write.h"
#include "kernels/rows.h"
#include "kernels/swiglu.h"
#include "model/internal/attention_key.h"
#include "model/internal/rope_axis.h"
#include "tensor/copy.h"

namespace caption::model {
namespace {

kernels::KvLayer layer_pages(const KvPages& kv, std::size_t layer) {
  if (kv.k_scales.empty()) return {.k = kv.k[layer], .v = kv.v[layer]};
  return {.k = kv.k[layer],
          .v = kv.v[layer],
          .k_scales = kv.k_scales[layer],
          .v_scales = kv.v_scales[layer]};
}

}  // namespace

struct TransformerDecoder::Step {
  ConstView cu_seqlens;
  ConstView context_lens;
  ConstView block_tables;
  ConstView slots;
  View rope_table;
  std::span<const WatchedRows> watched;
  std::span<const AdaptedRows> adapted;
};

TransformerDecoder::TransformerDecoder(Stream& stream, const PlacedWeights& weights,
                                       const Blueprint& blueprint)
    : spec_(blueprint.text.value()),
      piece_rows_(decoder_piece_rows(weights.device())),
      embedding_(weights.matrix(blueprint.decoder.embedding)),
      lm_head_(weights.matrix(blueprint.decoder.head)),
      final_norm_(weights.vector(blueprint.decoder.final_norm)),
      head_id_(blueprint.decoder.head),
      adapters_(weights.adapters()),
      low_rank_(adapters_, weights.device()),
      rotary_(make_rotary_frequencies(spec_.rope, spec_.head_dim)),
      rope_axis_(spec_.has_mrope() ? copy_to(stream, weights.device(), make_rope_axis(spec_).view())
                                   : Tensor()),
      hidden_(weights.device()),
      normed_(weights.device()),
      q_(weights.device()),
      k_(weights.device()),
      v_(weights.device()),
      inner_(weights.device()),
      rope_(weights.device()),
      last_(weights.device()),
      up_(weights.device()) {
  rotary_.inv_freq = copy_to(stream, weights.device(), rotary_.inv_freq.view());
  for (const DecoderLayerIds& ids : blueprint.decoder.layers) {
    layers_.push_back({.input_norm = weights.vector(ids.input_norm),
                       .q = weights.linear(ids.q),
                       .k = weights.linear(ids.k),
                       .v = weights.linear(ids.v),
                       .o = weights.linear(ids.o),
                       .q_norm = weights.vector(ids.q_norm),
                       .k_norm = weights.vector(ids.k_norm),
                       .post_attention_norm = weights.vector(ids.post_attention_norm),
                       .gate = weights.linear(ids.gate),
                       .up = weights.linear(ids.up),
                       .down = weights.linear(ids.down),
                       .ids = ids});
  }
}

void TransformerDecoder::reserve(std::int64_t max_tokens, std::int64_t max_logit_rows) {
  const std::int64_t q_dim = spec_.q_dim();
  const std::int64_t kv_dim = spec_.kv_dim();
  hidden_.view({max_tokens, spec_.hidden});
  const std::int64_t piece_rows = std::min(max_tokens, piece_rows_);
  normed_.view({std::max(piece_rows * spec_.hidden, max_tokens * q_dim)});
  q_.view({max_tokens, q_dim});
  for (Scratch* scratch : {&k_, &v_}) scratch->view({piece_rows, kv_dim});
  inner_.view({piece_rows, spec_.intermediate});
  rope_.view({max_tokens, spec_.head_dim});
  last_.view({max_logit_rows, spec_.hidden});
  const bool is_gated_at_once = std::all_of(
      layers_.begin(), layers_.end(), [](const Layer& layer) { return layer.gates_like_up(); });
  if (!is_gated_at_once || !adapters_.empty()) up_.view({piece_rows, spec_.intermediate});
  if (adapters_.empty()) return;
  low_rank_.reserve(std::max(max_tokens, max_logit_rows));
}

std::int64_t TransformerDecoder::scratch_bytes() const {
  std::int64_t sum = 0;
  for (const Scratch* scratch :
       {&hidden_, &normed_, &q_, &k_, &v_, &inner_, &rope_, &last_, &up_}) {
    sum += scratch->size_bytes();
  }
  return sum + low_rank_.scratch_bytes();
}

std::int64_t decoder_scratch_bytes(Device device, const DecoderSpec& spec, std::int64_t max_tokens,
                                   std::int64_t max_logit_rows, std::int64_t adapter_rank) {
  const std::int64_t piece = std::min(max_tokens, decoder_piece_rows(device));
  // For every token: hidden, q, the table of the rotation and the output of attention (whose memory
  // the norm of a piece shares). For a piece: k, v and silu(gate) * up.
  const std::int64_t per_token = spec.hidden + spec.q_dim() + spec.head_dim;
  const std::int64_t attended = std::max(piece * spec.hidden, max_tokens * spec.q_dim());
  const std::int64_t of_piece = piece * (2 * spec.kv_dim() + spec.intermediate);
  // With adapters, up for a piece, and the product of lora_A for every row.
  const std::int64_t adapted =
      adapter_rank > 0
          ? piece * spec.intermediate + std::max(max_tokens, max_logit_rows) * adapter_rank
          : 0;
  return static_cast<std::int64_t>(sizeof(float)) *
         (max_tokens * per_token + attended + of_piece + max_logit_rows * spec.hidden + adapted);
}

std::int64_t TransformerDecoder::Layer::size_bytes() const {
  std::int64_t sum = 0;
  for (const LinearWeights* linear : {&q, &k, &v, &o, &gate, &up, &down}) {
    sum += linear->weight.size_bytes();
  }
  return sum;
}

std::int64_t TransformerDecoder::step_weight_bytes(std::span<const std::int32_t> layers) const {
  std::int64_t sum = lm_head_.size_bytes();
  for (const std::int32_t layer : layers) {
    sum += layers_.at(static_cast<std::size_t>(layer)).size_bytes();
  }
  return sum;
}

void TransformerDecoder::forward(Stream& stream, const StepBatch& batch, const KvPages& kv,
                                 View logits) {
  check(batch, kv, logits);
  Step step{.cu_seqlens = batch.cu_seqlens,
            .context_lens = batch.context_lens,
            .block_tables = batch.block_tables,
            .slots = batch.slots,
            .rope_table = rope_.view({batch.num_tokens(), spec_.head_dim}),
            .watched = batch.watched,
            .adapted = batch.adapted};
  kernels::rope_table(stream,
                      {.positions = batch.positions,
                       .inv_freq = std::as_const(rotary_.inv_freq).view(),
                       .axis = spec_.has_mrope() ? std::as_const(rope_axis_).view() : ConstView{},
                       .scale = rotary_.attention_scaling},
                      step.rope_table);

  const View x = embed(stream, batch);
  const std::size_t num_layers = batch.layers.empty() ? layers_.size() : batch.layers.size();
  for (std::size_t n = 0; n < num_layers; ++n) {
    const std::size_t i = batch.layers.empty() ? n : static_cast<std::size_t>(batch.layers[n]);
    choose_clusters(batch, i);
    attend(stream, i, step, layer_pages(kv, i), x);
    mlp(stream, layers_[i], step, x);
    add_deepstack(stream, batch, i, x);
  }
  if (batch.num_logit_rows() == 0) return;
  const View last = last_.view({batch.num_logit_rows(), spec_.hidden});
  kernels::gather_rows(stream, x, batch.logit_rows, last);
  const LowRankLayers::Rows adapted{
      .first = 0, .count = last.dim(0), .adapted = batch.adapted_logits};
  // normed_ has room for the rows of a piece.
  const bool is_wide = kernels::activation_dtype(lm_head_) == DType::kF32 ||
                       last.dim(0) > piece_rows_ || low_rank_.change(head_id_, adapted);
  const View normed = is_wide ? last : as_input_of(lm_head_, normed_.view(last.shape()));
  kernels::rms_norm(stream, last, final_norm_, spec_.rms_norm_eps, normed);
  kernels::linear(stream, normed, lm_head_, ConstView{}, logits);
  low_rank_.add(stream, head_id_, adapted, normed, logits);
}

void TransformerDecoder::check(const StepBatch& batch, const KvPages& kv, ConstView logits) const {
  const std::int64_t num_tokens = batch.num_tokens();
  const std::int64_t num_seqs = batch.num_sequences();
  CAPTION_CHECK(num_tokens > 0 && num_seqs > 0, "a step without tokens");
  CAPTION_CHECK(batch.positions.num_elements() == spec_.position_axes() * num_tokens &&
                    batch.slots.dim(0) == num_tokens,
                "one position per axis and one slot per token");
  CAPTION_CHECK(batch.cu_seqlens.dim(0) == num_seqs + 1, "one boundary per sequence and one more");
  CAPTION_CHECK(batch.block_tables.dim(0) == num_seqs && batch.block_tables.dim(1) > 0,
                "block tables of another shape");
  CAPTION_CHECK(kv.k.size() == layers_.size() && kv.v.size() == layers_.size(),
                "KV pages of another number of layers");
  CAPTION_CHECK(kv.k_scales.size() == kv.v_scales.size() &&
                    (kv.k_scales.empty() || kv.k_scales.size() == layers_.size()),
                "scales of KV pages of another number of layers");
  if (batch.num_logit_rows() > 0) {
    CAPTION_CHECK(logits.shape() == Shape({batch.num_logit_rows(), spec_.vocab}),
                  "logits of shape " + logits.shape().to_string());
  }
  for (const WatchedRows& watched : batch.watched) {
    CAPTION_CHECK(watched.sums.shape().rank() == 3 && watched.sums.dim(0) == spec_.num_layers &&
                      watched.sums.dim(1) == spec_.num_kv_heads,
                  "sums of attention of another shape");
  }
  CAPTION_CHECK(batch.clusters.empty() || std::ssize(batch.clusters) == num_seqs,
                "key clusters of another number of sequences");
  for (const std::vector<kernels::KeyClusters>* const layers : batch.clusters) {
    CAPTION_CHECK(layers == nullptr || layers->size() == layers_.size(),
                  "key clusters of another number of layers");
  }
  for (std::size_t n = 0; n < batch.layers.size(); ++n) {
    CAPTION_CHECK(batch.layers[n] >= (n == 0 ? 0 : batch.layers[n - 1] + 1) &&
                      batch.layers[n] < spec_.num_layers,
                  "a step over layer " + std::to_string(batch.layers[n]));
  }
  for (const AdaptedRows& rows : batch.adapted) {
    CAPTION_CHECK(rows.adapter >= 0 && rows.adapter < num_adapters(), "rows of no adapter");
  }
  std::int64_t vision_rows = 0;
  for (const ConstView& piece : batch.vision) {
    CAPTION_CHECK(piece.dim(1) == spec_.vision_width(), "vision tokens of another width");
    vision_rows += piece.dim(0);
  }
  CAPTION_CHECK(vision_rows == batch.vision_rows.dim(0),
                std::to_string(vision_rows) + " vision tokens for " +
                    std::to_string(batch.vision_rows.dim(0)) + " places");
}

View TransformerDecoder::embed(Stream& stream, const StepBatch& batch) {
  const View x = hidden_.view({batch.num_tokens(), spec_.hidden});
  kernels::embedding(stream, batch.tokens, embedding_, x);
  std::int64_t first = 0;
  for (const ConstView& piece : batch.vision) {
    kernels::scatter_rows(stream, piece.columns(0, spec_.hidden),
                          batch.vision_rows.rows(first, piece.dim(0)), x);
    first += piece.dim(0);
  }
  return x;
}

void TransformerDecoder::add_deepstack(Stream& stream, const StepBatch& batch, std::size_t layer,
                                       View x) {
  if (static_cast<std::int64_t>(layer) >= spec_.deepstack_layers) return;
  const std::int64_t first_column = (1 + static_cast<std::int64_t>(layer)) * spec_.hidden;
  std::int64_t first = 0;
  for (const ConstView& piece : batch.vision) {
    kernels::add_rows(stream, piece.columns(first_column, spec_.hidden),
                      batch.vision_rows.rows(first, piece.dim(0)), x);
    first += piece.dim(0);
  }
}

void TransformerDecoder::choose_clusters(const StepBatch& batch, std::size_t layer) {
  clusters_.clear();
  for (const std::vector<kernels::KeyClusters>* const layers : batch.clusters) {
    clusters_.push_back(layers == nullptr ? nullptr : &(*layers)[layer]);
  }
}

void TransformerDecoder::watch(Stream& stream, std::size_t layer, std::span<const WatchedRows> rows,
                               ConstView q, const kernels::PagedContext& context, float scale) {
  if (rows.empty()) return;
  watches_.clear();
  for (const WatchedRows& watched : rows) {
    const View sums = watched.sums.rows(static_cast<std::int64_t>(layer), 1);
    watches_.push_back({.sequence = watched.sequence,
                        .first_row = watched.first_row,
                        .num_rows = watched.num_rows,
                        .sums = sums.reshape({spec_.num_kv_heads, watched.sums.dim(2)})});
  }
  kernels::attention_mass(stream, q, context, scale, watches_);
}

kernels::RowsToNorm TransformerDecoder::input_of(ConstView x, ConstView norm) {
  return {.x = x, .weight = norm, .eps = spec_.rms_norm_eps, .normed = normed_.view(x.shape())};
}

void TransformerDecoder::project(Stream& stream, const Layer& layer, const Step& step,
                                 const kernels::KvLayer& pages, RowRange rows, View q) {
  const auto [x, first, count] = rows;
  const std::int64_t head_dim = spec_.head_dim;
  const std::int64_t kv_dim = spec_.kv_dim();
  const kernels::RowsToNorm input = input_of(x.rows(first, count), layer.input_norm);
  const View q_rows = q_.view({x.dim(0), spec_.q_dim()}).rows(first, count);
  const View k_rows = k_.view({count, kv_dim});
  const View v_rows = v_.view({count, kv_dim});
  const kernels::LinearPart parts[] = {{layer.q.weight, layer.q.bias, q_rows},
                                       {layer.k.weight, layer.k.bias, k_rows},
                                       {layer.v.weight, layer.v.bias, v_rows}};
  const LowRankLayers::Rows adapted{.first = first, .count = count, .adapted = step.adapted};
  const DecoderLayerIds& ids = layer.ids;
  if (low_rank_.change(ids.q.weight, adapted) || low_rank_.change(ids.k.weight, adapted) ||
      low_rank_.change(ids.v.weight, adapted)) {
    kernels::rms_norm(stream, input.x, input.weight, input.eps, input.normed);
    kernels::linear(stream, input.normed, parts);
    low_rank_.add(stream, ids.q.weight, adapted, input.normed, q_rows);
    low_rank_.add(stream, ids.k.weight, adapted, input.normed, k_rows);
    low_rank_.add(stream, ids.v.weight, adapted, input.normed, v_rows);
  } else {
    kernels::norm_linear(stream, input, parts);
  }
  kernels::rope_kv_write(stream,
                         {.q = q.rows(first, count),
                          .k = k_rows.reshape({count, spec_.num_kv_heads, head_dim}),
                          .v = v_rows.reshape({count, spec_.num_kv_heads, head_dim}),
                          .q_norm = layer.q_norm,
                          .k_norm = layer.k_norm,
                          .eps = spec_.rms_norm_eps},
                         step.rope_table.rows(first, count), step.slots.rows(first, count), pages);
}

void TransformerDecoder::attend(Stream& stream, std::size_t index, const Step& step,
                                const kernels::KvLayer& pages, View x) {
  const Layer& layer = layers_[index];
  const std::int64_t rows = x.dim(0);
  const View q = q_.view({rows, spec_.num_heads, spec_.head_dim});
  for (std::int64_t first = 0; first < rows; first += piece_rows_) {
    project(stream, layer, step, pages, {x, first, std::min(piece_rows_, rows - first)}, q);
  }

  const LowRankLayers::Rows adapted{.first = 0, .count = rows, .adapted = step.adapted};
  const bool is_changed = low_rank_.change(layer.ids.o.weight, adapted);
  const View memory = normed_.view({rows, spec_.q_dim()});
  const View attended = is_changed ? memory : as_input_of(layer.o.weight, memory);
  const float scale = 1.0F / std::sqrt(static_cast<float>(spec_.head_dim));
  const kernels::PagedContext context{.k_pages = pages.k,
                                      .v_pages = pages.v,
                                      .cu_seqlens = step.cu_seqlens,
                                      .context_lens = step.context_lens,
                                      .block_tables = step.block_tables,
                                      .k_scales = pages.k_scales,
                                      .v_scales = pages.v_scales,
                                      .clusters = clusters_,
                                      .window = spec_.window_of(index)};
  kernels::paged_attention(stream, q, context, scale, attended.reshape(q.shape()));
  watch(stream, index, step.watched, q, context, scale);
  kernels::linear_add(stream, attended, layer.o.weight, layer.o.bias, x);
  low_rank_.add(stream, layer.ids.o.weight, adapted, attended, x);
}

View TransformerDecoder::gate_and_up(Stream& stream, const Layer& layer,
                                     const LowRankLayers::Rows& rows,
                                     const kernels::RowsToNorm& input) {
  const ParameterId gate = layer.ids.gate.weight;
  const ParameterId up = layer.ids.up.weight;
  const View inner = inner_.view({rows.count, spec_.intermediate});
  const bool is_changed = low_rank_.change(gate, rows) || low_rank_.change(up, rows);
  if (!is_changed && layer.gates_like_up()) {
    const bool is_down_changed = low_rank_.change(layer.ids.down.weight, rows);
    const View y = is_down_changed ? inner : as_input_of(layer.down.weight, inner);
    kernels::norm_linear_swiglu(stream, input, layer.gate, layer.up, y);
    return y;
  }
  kernels::rms_norm(stream, input.x, input.weight, input.eps, input.normed);
  const View up_rows = up_.view(inner.shape());
  const kernels::LinearPart parts[] = {{layer.gate.weight, layer.gate.bias, inner},
                                       {layer.up.weight, layer.up.bias, up_rows}};
  kernels::linear(stream, input.normed, parts);
  low_rank_.add(stream, gate, rows, input.normed, inner);
  low_rank_.add(stream, up, rows, input.normed, up_rows);
  kernels::swiglu(stream, inner, up_rows, inner);
  return inner;
}

void TransformerDecoder::mlp(Stream& stream, const Layer& layer, const Step& step, View x) {
  for (std::int64_t first = 0; first < x.dim(0); first += piece_rows_) {
    const std::int64_t count = std::min(piece_rows_, x.dim(0) - first);
    const View part = x.rows(first, count);
    const LowRankLayers::Rows adapted{.first = first, .count = count, .adapted = step.adapted};
    const View inner =
        gate_and_up(stream, layer, adapted, input_of(part, layer.post_attention_norm));
    kernels::linear_add(stream, inner, layer.down.weight, layer.down.bias, part);
    low_rank_.add(stream, layer.ids.down.weight, adapted, inner, part);
  }
}

}  // namespace caption::model
