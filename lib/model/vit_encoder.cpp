#include "model/internal/vit_encoder.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "kernels/linear.h"
#include "model/internal/activate.h"
#include "model/internal/qwen_vision_encoder.h"
#include "tensor/copy.h"

namespace caption::model {

VitEncoder::VitEncoder(const PlacedWeights& weights, const Blueprint& blueprint)
    : tower_(weights, blueprint),
      pixels_(weights.device()),
      pooled_(weights.device()),
      projected_(weights.device()) {
  const VisionSpec& vision = spec();
  if (vision.pool_stride < 1 || vision.pool_stride > vision.grid() ||
      (vision.keeps_class_token && vision.pool_stride > 1)) {
    throw Error(
        ErrorCode::kBadModel,
        "vision tokens cannot be pooled with stride " + std::to_string(vision.pool_stride) +
            ": the tower's grid is " + std::to_string(vision.grid()) + "x" +
            std::to_string(vision.grid()) +
            (vision.keeps_class_token ? ", and with the class token kept there is no pooling"
                                      : ""));
  }
  for (const LinearIds& ids : blueprint.projector) projector_.push_back(weights.linear(ids));
  CAPTION_CHECK(projector_.size() == 1 || projector_.size() == 2,
                "a projector of one or two layers");
}

std::int64_t VitEncoder::tokens_per_frame() const { return tokens_per_image(spec(), {}); }

Tensor VitEncoder::encode(Stream& stream, ConstView pixels) {
  const std::int64_t frames = pixels.dim(0);
  Tensor tokens(DType::kF32, {frames * tokens_per_frame(), projector_.back().weight.num_features()},
                stream.device());
  for (std::int64_t first = 0; first < frames; first += kFramesPerPass) {
    const std::int64_t count = std::min(kFramesPerPass, frames - first);
    const View hidden = tower_.forward(stream, upload(stream, pixels.rows(first, count)));
    project(stream, select(stream, hidden, count),
            tokens.view().rows(first * tokens_per_frame(), count * tokens_per_frame()));
  }
  return tokens;
}

ConstView VitEncoder::upload(Stream& stream, ConstView pixels) {
  if (pixels.device() == stream.device()) return pixels;
  const View uploaded = pixels_.view(pixels.shape());
  copy(stream, pixels, uploaded);
  return uploaded;
}

View VitEncoder::select(Stream& stream, View hidden, std::int64_t frames) {
  if (spec().keeps_class_token) return hidden;
  const std::int64_t grid = spec().grid();
  const std::int64_t edge = grid / spec().pool_stride;
  const std::int64_t dim = hidden.dim(1);
  // The class token is the first of each frame: start one row later and skip it between frames.
  const ConstView patches(hidden.rows(1, hidden.dim(0) - 1).raw(), DType::kF32,
                          {frames, grid, grid, dim}, tower_.tokens_per_frame() * dim,
                          hidden.device());
  const View pooled = pooled_.view({frames * edge * edge, dim});
  kernels::pool_2d(stream, patches, spec().pooling, spec().pool_stride,
                   pooled.reshape({frames, edge, edge, dim}));
  return pooled;
}

void VitEncoder::project(Stream& stream, ConstView x, View y) {
  const LinearWeights& first = projector_.front();
  if (projector_.size() == 1) return kernels::linear(stream, x, first.weight, first.bias, y);
  const View inner = projected_.view({x.dim(0), first.weight.num_features()});
  linear_activated(stream, spec().projector_activation, x, first, inner);
  kernels::linear(stream, inner, projector_.back().weight, projector_.back().bias, y);
}

std::unique_ptr<VisionEncoder> make_vision_encoder(const PlacedWeights& weights,
                                                   const Blueprint& blueprint) {
  if (!blueprint.qwen_tower.blocks.empty()) {
    return std::make_unique<QwenVisionEncoder>(weights, blueprint);
  }
  return std::make_unique<VitEncoder>(weights, blueprint);
}

}  // namespace caption::model
