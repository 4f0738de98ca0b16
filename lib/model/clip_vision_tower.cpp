#include "model/internal/clip_vision_tower.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kernels/attention.h"
#include "kernels/convert.h"
#include "kernels/linear.h"
#include "kernels/norm.h"
#include "kernels/vision_embed.h"
#include "model/internal/activate.h"

namespace caption::model {

ClipVisionTower::ClipVisionTower(const PlacedWeights& weights, const Blueprint& blueprint)
    : spec_(blueprint.vision.value()),
      class_embedding_(weights.vector(blueprint.tower.class_embedding)),
      patch_embedding_(weights.matrix(blueprint.tower.patch_embedding)),
      positions_(weights.vector(blueprint.tower.positions)),
      pre_norm_(weights.norm(blueprint.tower.pre_norm)),
      hidden_(weights.device()),
      normed_(weights.device()),
      q_(weights.device()),
      k_(weights.device()),
      v_(weights.device()),
      rounded_k_(weights.device(), DType::kBF16),
      rounded_v_(weights.device(), DType::kBF16),
      wide_(weights.device()) {
  for (const ClipLayerIds& ids : blueprint.tower.layers) {
    layers_.push_back({.norm_1 = weights.norm(ids.norm_1),
                       .q = weights.linear(ids.q),
                       .k = weights.linear(ids.k),
                       .v = weights.linear(ids.v),
                       .out = weights.linear(ids.out),
                       .norm_2 = weights.norm(ids.norm_2),
                       .fc1 = weights.linear(ids.fc1),
                       .fc2 = weights.linear(ids.fc2)});
  }
}

View ClipVisionTower::forward(Stream& stream, ConstView pixels) {
  CAPTION_CHECK(pixels.shape() == Shape({pixels.dim(0), 3, spec_.image_px, spec_.image_px}),
                "pixel values " + pixels.shape().to_string() + " for a tower of " +
                    std::to_string(spec_.image_px) + " pixels");
  const View x = embed(stream, pixels);
  for (const Layer& layer : layers_) {
    attend(stream, layer, x);
    mlp(stream, layer, x);
  }
  return x;
}

View ClipVisionTower::embed(Stream& stream, ConstView pixels) {
  const std::int64_t frames = pixels.dim(0);
  const std::int64_t num_patches = frames * spec_.grid() * spec_.grid();
  const View columns = wide_.view({num_patches, patch_embedding_.num_columns()});
  kernels::im2col_patches(stream, pixels, spec_.patch_px, columns);
  const View patches = normed_.view({num_patches, spec_.hidden});
  kernels::linear(stream, columns, patch_embedding_, ConstView{}, patches);
  const View x = hidden_.view({frames * tokens_per_frame(), spec_.hidden});
  kernels::vit_embeddings(stream, patches, class_embedding_, positions_, x);
  kernels::layer_norm(stream, x, pre_norm_.weight, pre_norm_.bias, spec_.layer_norm_eps, x);
  return x;
}

void ClipVisionTower::attend(Stream& stream, const Layer& layer, View x) {
  const std::int64_t rows = x.dim(0);
  const View normed = normed_.view(x.shape());
  kernels::layer_norm(stream, x, layer.norm_1.weight, layer.norm_1.bias, spec_.layer_norm_eps,
                      normed);
  const View q = q_.view(x.shape());
  const View k = k_.view(x.shape());
  const View v = v_.view(x.shape());
  const kernels::LinearPart parts[] = {{layer.q.weight, layer.q.bias, q},
                                       {layer.k.weight, layer.k.bias, k},
                                       {layer.v.weight, layer.v.bias, v}};
  kernels::linear(stream, normed, parts);
  const Shape heads = {rows, spec_.num_heads, spec_.head_dim()};
  const View attended = normed;  // reuses the memory: q, k and v no longer need it
  kernels::attention(stream,
                     {.q = q.reshape(heads),
                      .k = as_key(stream, layer, k, rounded_k_).reshape(heads),
                      .v = as_key(stream, layer, v, rounded_v_).reshape(heads),
                      .seq_len = tokens_per_frame(),
                      .scale = 1.0F / std::sqrt(static_cast<float>(spec_.head_dim()))},
                     attended.reshape(heads));
  kernels::linear_add(stream, attended, layer.out.weight, layer.out.bias, x);
}

// Returns keys or values in the precision in which the layer that projected them took its own
// input: rounded to bf16 if that layer rounds it, so that attention may multiply bf16.
ConstView ClipVisionTower::as_key(Stream& stream, const Layer& layer, View projected,
                                  Scratch& rounded) const {
  if (!layer.k.weight.rounds_input()) return projected;
  const View to = rounded.view(projected.shape());
  kernels::convert(stream, projected, to);
  return to;
}

void ClipVisionTower::mlp(Stream& stream, const Layer& layer, View x) {
  const View normed = normed_.view(x.shape());
  kernels::layer_norm(stream, x, layer.norm_2.weight, layer.norm_2.bias, spec_.layer_norm_eps,
                      normed);
  for (std::int64_t first = 0; first < x.dim(0); first += kMlpRows) {
    const std::int64_t count = std::min(kMlpRows, x.dim(0) - first);
    const View in = normed.rows(first, count);
    const View inner = wide_.view({count, spec_.intermediate});
    linear_activated(stream, spec_.activation, in, layer.fc1, inner);
    kernels::linear_add(stream, inner, layer.fc2.weight, layer.fc2.bias, x.rows(first, count));
  }
}

}  // namespace caption::model
