#include "model/internal/vision_encoder.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "kernels/linear.h"
#include "model/internal/activate.h"

namespace caption::model {
namespace {

// Frames per pass: enough rows (577 per frame in a ViT-L/14-336) to use every core in a matrix
// product.
constexpr std::int64_t kFramesPerPass = 8;

}  // namespace

VisionEncoder::VisionEncoder(ClipVisionTower tower, const TokenSelection& selection,
                             Projector projector)
    : tower_(std::move(tower)), selection_(selection), projector_(std::move(projector)) {
  const bool keeps_class = selection_.class_token == TokenSelection::ClassToken::kKeep;
  if (selection_.pool_stride < 1 || selection_.pool_stride > tower_.config().grid() ||
      (keeps_class && selection_.pool_stride > 1)) {
    throw Error(ErrorCode::kBadModel,
                "vision tokens cannot be pooled with stride " +
                    std::to_string(selection_.pool_stride) + ": the tower's grid is " +
                    std::to_string(tower_.config().grid()) + "x" +
                    std::to_string(tower_.config().grid()) +
                    (keeps_class ? ", and with the class token kept there is no pooling" : ""));
  }
}

std::int64_t VisionEncoder::tokens_per_frame() const {
  if (selection_.class_token == TokenSelection::ClassToken::kKeep) {
    return tower_.tokens_per_frame();
  }
  const std::int64_t edge = tower_.config().grid() / selection_.pool_stride;
  return edge * edge;
}

Tensor VisionEncoder::encode(Stream& stream, ConstView pixels) {
  const std::int64_t frames = pixels.dim(0);
  Tensor tokens(DType::kF32, {frames * tokens_per_frame(), projector_.out_dim()});
  for (std::int64_t first = 0; first < frames; first += kFramesPerPass) {
    const std::int64_t count = std::min(kFramesPerPass, frames - first);
    const View hidden = tower_.forward(stream, pixels.rows(first, count));
    project(stream, select(stream, hidden, count),
            tokens.view().rows(first * tokens_per_frame(), count * tokens_per_frame()));
  }
  return tokens;
}

View VisionEncoder::select(Stream& stream, View hidden, std::int64_t frames) {
  if (selection_.class_token == TokenSelection::ClassToken::kKeep) return hidden;
  const std::int64_t grid = tower_.config().grid();
  const std::int64_t edge = grid / selection_.pool_stride;
  const std::int64_t dim = hidden.dim(1);
  // The class token is the first of each frame: start one row later and skip it between frames.
  const ConstView patches(hidden.as<float>() + dim, DType::kF32, {frames, grid, grid, dim},
                          tower_.tokens_per_frame() * dim, hidden.device());
  const View pooled = pooled_.view({frames * edge * edge, dim});
  kernels::pool_2d(stream, patches, selection_.pooling, selection_.pool_stride,
                   pooled.reshape({frames, edge, edge, dim}));
  return pooled;
}

void VisionEncoder::project(Stream& stream, ConstView x, View y) {
  const LinearWeights& first = projector_.linear_1;
  if (!projector_.linear_2) return kernels::linear(stream, x, first.weight, first.bias, y);
  const View inner = projected_.view({x.dim(0), first.weight.num_features()});
  linear_activated(stream, projector_.activation, x, first, inner);
  kernels::linear(stream, inner, projector_.linear_2->weight, projector_.linear_2->bias, y);
}

}  // namespace caption::model
