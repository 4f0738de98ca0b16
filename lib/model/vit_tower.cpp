#include "model/internal/vit_tower.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kernels/attention.h"
#include "kernels/linear.h"
#include "kernels/norm.h"
#include "kernels/vision_embed.h"
#include "model/internal/activate.h"
#include "model/internal/attention_key.h"
#include "tensor/copy.h"

namespace caption::model {
namespace {

constexpr float kQkNormEps = 1e-6F;  // InternVLVisionRMSNorm's, whatever the configuration says

// x += scale * layer(branch); an empty scale is 1.
void add_branch(Stream& stream, ConstView branch, const LinearWeights& layer, ConstView scale,
                View x) {
  if (scale.empty()) return kernels::linear_add(stream, branch, layer.weight, layer.bias, x);
  kernels::linear_add_scaled(stream, branch, layer, scale, x);
}

}  // namespace

VitTower::VitTower(const PlacedWeights& weights, const Blueprint& blueprint)
    : spec_(blueprint.vision.value()),
      patch_embedding_(weights.linear(blueprint.tower.patch_embedding)),
      positions_(
          weights.vector(blueprint.tower.positions).reshape({spec_.num_positions, spec_.hidden})),
      pre_norm_(weights.norm(blueprint.tower.pre_norm)),
      pixels_(weights.device()),
      hidden_(weights.device()),
      normed_(weights.device()),
      q_(weights.device()),
      k_(weights.device()),
      v_(weights.device()),
      rounded_k_(weights.device(), DType::kBF16),
      rounded_v_(weights.device(), DType::kBF16),
      features_(weights.device()),
      wide_(weights.device()) {
  if (spec_.class_tokens > 0) {
    class_embedding_ = weights.vector(blueprint.tower.class_embedding).reshape({spec_.hidden});
  }
  for (const VitLayerIds& ids : blueprint.tower.layers) {
    layers_.push_back({.norm_1 = weights.norm(ids.norm_1),
                       .q = weights.linear(ids.q),
                       .k = weights.linear(ids.k),
                       .v = weights.linear(ids.v),
                       .out = weights.linear(ids.out),
                       .q_norm = weights.vector(ids.q_norm),
                       .k_norm = weights.vector(ids.k_norm),
                       .scale_1 = weights.vector(ids.scale_1),
                       .norm_2 = weights.norm(ids.norm_2),
                       .fc1 = weights.linear(ids.fc1),
                       .fc2 = weights.linear(ids.fc2),
                       .scale_2 = weights.vector(ids.scale_2)});
  }
}

View VitTower::forward(Stream& stream, std::span<const ConstView> pixels) {
  const View x = embed(stream, pixels);
  const bool has_features = !spec_.feature_layers.empty();
  const View features = has_features ? features_.view({x.dim(0), spec_.feature_columns()}) : View();
  keep_features(stream, 0, x, features);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    attend(stream, layers_[i], x);
    mlp(stream, layers_[i], x);
    keep_features(stream, static_cast<std::int64_t>(i) + 1, x, features);
  }
  return has_features ? features : x;
}

// Copies a hidden state to the columns of the features that are taken from it.
void VitTower::keep_features(Stream& stream, std::int64_t hidden_state, ConstView x,
                             View features) const {
  for (std::size_t i = 0; i < spec_.feature_layers.size(); ++i) {
    if (spec_.feature_layers[i] != hidden_state) continue;
    copy(stream, x, features.columns(static_cast<std::int64_t>(i) * spec_.hidden, spec_.hidden));
  }
}

std::int64_t VitTower::scratch_bytes() const {
  std::int64_t sum = 0;
  for (const Scratch* const scratch :
       {&hidden_, &normed_, &q_, &k_, &v_, &rounded_k_, &rounded_v_, &features_, &wide_}) {
    sum += scratch->size_bytes();
  }
  return sum;
}

View VitTower::embed(Stream& stream, std::span<const ConstView> pixels) {
  std::int64_t frames = 0;
  for (const ConstView& part : pixels) {
    CAPTION_CHECK(part.shape() == Shape({part.dim(0), 3, spec_.image_px, spec_.image_px}),
                  "pixel values " + part.shape().to_string() + " for a tower of " +
                      std::to_string(spec_.image_px) + " pixels");
    frames += part.dim(0);
  }
  const std::int64_t frame_patches = spec_.grid() * spec_.grid();
  const std::int64_t num_patches = frames * frame_patches;
  const View columns = wide_.view({num_patches, patch_embedding_.weight.num_columns()});
  std::int64_t first = 0;
  for (const ConstView& part : pixels) {
    const std::int64_t count = part.dim(0) * frame_patches;
    kernels::im2col_patches(stream, upload(stream, part), spec_.patch_px,
                            columns.rows(first, count));
    first += count;
  }
  const View patches = normed_.view({num_patches, spec_.hidden});
  kernels::linear(stream, columns, patch_embedding_.weight, patch_embedding_.bias, patches);
  const View x = hidden_.view({frames * tokens_per_frame(), spec_.hidden});
  kernels::vit_embeddings(stream, patches, class_embedding_, positions_, x);
  if (spec_.vit.pre_norm) normalise(stream, x, pre_norm_, x);
  return x;
}

ConstView VitTower::upload(Stream& stream, ConstView pixels) {
  if (pixels.device() == stream.device()) return pixels;
  const View uploaded = pixels_.view(pixels.shape());
  copy(stream, pixels, uploaded);
  return uploaded;
}

void VitTower::normalise(Stream& stream, ConstView x, const NormWeights& norm, View y) const {
  const float eps = spec_.layer_norm_eps;
  switch (spec_.vit.norm) {
    case Norm::kLayer: return kernels::layer_norm(stream, x, norm.weight, norm.bias, eps, y);
    case Norm::kRms: return kernels::rms_norm(stream, x, norm.weight, eps, y);
  }
}

void VitTower::attend(Stream& stream, const Layer& layer, View x) {
  const std::int64_t rows = x.dim(0);
  const View memory = normed_.view(x.shape());
  const View normed = as_input_of(layer.q.weight, memory);
  normalise(stream, x, layer.norm_1, normed);
  const View q = q_.view(x.shape());
  const View k = k_.view(x.shape());
  const View v = v_.view(x.shape());
  const kernels::LinearPart parts[] = {{layer.q.weight, layer.q.bias, q},
                                       {layer.k.weight, layer.k.bias, k},
                                       {layer.v.weight, layer.v.bias, v}};
  kernels::linear(stream, normed, parts);
  if (!layer.q_norm.empty()) kernels::rms_norm(stream, q, layer.q_norm, kQkNormEps, q);
  if (!layer.k_norm.empty()) kernels::rms_norm(stream, k, layer.k_norm, kQkNormEps, k);
  const Shape heads = {rows, spec_.num_heads, spec_.head_dim()};
  // Reuses the memory of the norm, which q, k and v no longer need.
  const View attended = as_input_of(layer.out.weight, memory);
  kernels::attention(stream,
                     {.q = q.reshape(heads),
                      .k = as_key(stream, layer.k.weight, k, rounded_k_).reshape(heads),
                      .v = as_key(stream, layer.v.weight, v, rounded_v_).reshape(heads),
                      .seq_len = tokens_per_frame(),
                      .scale = 1.0F / std::sqrt(static_cast<float>(spec_.head_dim()))},
                     attended.reshape(heads));
  add_branch(stream, attended, layer.out, layer.scale_1, x);
}

void VitTower::mlp(Stream& stream, const Layer& layer, View x) {
  const View normed = as_input_of(layer.fc1.weight, normed_.view(x.shape()));
  normalise(stream, x, layer.norm_2, normed);
  const std::int64_t piece_rows = tower_piece_rows(stream.device());
  for (std::int64_t first = 0; first < x.dim(0); first += piece_rows) {
    const std::int64_t count = std::min(piece_rows, x.dim(0) - first);
    const View in = normed.rows(first, count);
    const View inner = as_input_of(layer.fc2.weight, wide_.view({count, spec_.intermediate}));
    linear_activated(stream, spec_.activation, in, layer.fc1, inner);
    add_branch(stream, inner, layer.fc2, layer.scale_2, x.rows(first, count));
  }
}

}  // namespace caption::model
