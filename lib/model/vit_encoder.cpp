#include "model/internal/vit_encoder.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "kernels/convert.h"
#include "kernels/linear.h"
#include "kernels/merge_patches.h"
#include "kernels/norm.h"
#include "kernels/pool_2d.h"
#include "kernels/resize_bilinear.h"
#include "model/internal/activate.h"
#include "model/internal/c_abstractor.h"
#include "model/internal/perceiver_resampler.h"
#include "model/internal/qwen_vision_encoder.h"
#include "tensor/copy.h"

namespace caption::model {
namespace {

constexpr float kProjectorNormEps = 1e-5F;  // torch's default, which InternVL's projector has

void check_merge(const VisionSpec& spec) {
  const std::string grid = std::to_string(spec.grid()) + "x" + std::to_string(spec.grid());
  if (spec.pool_stride < 1 || spec.pool_stride > spec.grid() ||
      (spec.keeps_class_token && (spec.pool_stride > 1 || spec.resize_stride > 1))) {
    throw Error(
        ErrorCode::kBadModel,
        "vision tokens cannot be pooled with stride " + std::to_string(spec.pool_stride) +
            ": the tower's grid is " + grid +
            (spec.keeps_class_token ? ", and with the class token kept there is no pooling" : ""));
  }
  CAPTION_CHECK(spec.merge != PatchMerge::kShuffle || spec.grid() % spec.pool_stride == 0,
                "pixel shuffle leaves a rest of the grid");
}

}  // namespace

VitEncoder::VitEncoder(const PlacedWeights& weights, const Blueprint& blueprint)
    : tower_(weights, blueprint),
      projector_norm_(weights.norm(blueprint.projector_norm)),
      resampler_(make_frame_resampler(weights, blueprint)),
      newline_(weights.vector(blueprint.newline)),
      pixels_(weights.device()),
      windows_(weights.device()),
      merged_(weights.device()),
      resized_(weights.device()),
      inner_{Scratch(weights.device()), Scratch(weights.device())} {
  check_merge(spec());
  if (spec().merge == PatchMerge::kConvolution) {
    convolution_.emplace(weights.linear(blueprint.merge));
  }
  for (const LinearIds& ids : blueprint.projector) projector_.push_back(weights.linear(ids));
  CAPTION_CHECK(!projector_.empty() || resampler_ != nullptr, "a projector without layers");
}

Tensor VitEncoder::encode(Stream& stream, ConstView pixels) {
  const std::int64_t frames = pixels.dim(0);
  const std::int64_t dim = spec().token_columns();
  const std::int64_t num_rows = num_vision_tokens(spec(), {frames});
  Tensor tokens(DType::kF32, {num_rows, dim}, stream.device());
  const View of_frames = tokens.view().rows(0, frames * tokens_per_frame());
  const DistinctFrames distinct = find_distinct_frames(pixels);
  if (std::ssize(distinct.frames) == frames) {
    encode_frames(stream, pixels, of_frames);
  } else {
    encode_distinct(stream, pixels, distinct, of_frames);
  }
  if (!newline_.empty()) {
    kernels::convert(stream, newline_.reshape({1, dim}), tokens.view().rows(num_rows - 1, 1));
  }
  return tokens;
}

// Encodes each distinct frame once and copies its tokens to all frames that equal it.
void VitEncoder::encode_distinct(Stream& stream, ConstView pixels, const DistinctFrames& distinct,
                                 View tokens) {
  const Tensor selected = select_frames(pixels, distinct.frames);
  const std::int64_t count = tokens_per_frame();
  Tensor once(DType::kF32, {selected.dim(0) * count, tokens.dim(1)}, stream.device());
  encode_frames(stream, selected.view(), once.view());
  for (std::size_t frame = 0; frame < distinct.index.size(); ++frame) {
    copy(stream, once.view().rows(distinct.index[frame] * count, count),
         tokens.rows(static_cast<std::int64_t>(frame) * count, count));
  }
  stream.synchronize();  // `selected` and `once` are freed here
}

// Writes the tokens of frames, a few at a time.
void VitEncoder::encode_frames(Stream& stream, ConstView pixels, View tokens) {
  for (std::int64_t first = 0; first < pixels.dim(0); first += kFramesPerPass) {
    const std::int64_t count = std::min(kFramesPerPass, pixels.dim(0) - first);
    encode_pass(stream, pixels.rows(first, count),
                tokens.rows(first * tokens_per_frame(), count * tokens_per_frame()));
  }
}

// Writes the tokens of frames that are encoded together.
void VitEncoder::encode_pass(Stream& stream, ConstView pixels, View tokens) {
  const std::int64_t frames = pixels.dim(0);
  const View hidden = tower_.forward(stream, upload(stream, pixels));
  View rows = merge(stream, hidden, frames);
  if (resampler_ != nullptr) rows = resampler_->forward(stream, rows, frames);
  if (spec().resize_stride == 1) return project(stream, rows, tokens);
  const std::int64_t dim = tokens.dim(1);
  const View projected = resized_.view({rows.dim(0), dim});
  project(stream, rows, projected);
  const std::int64_t edge = spec().grid() / spec().pool_stride;
  const std::int64_t out = (edge + spec().resize_stride - 1) / spec().resize_stride;
  kernels::resize_bilinear(stream, projected.reshape({frames, edge, edge, dim}),
                           tokens.reshape({frames, out, out, dim}));
}

ConstView VitEncoder::upload(Stream& stream, ConstView pixels) {
  if (pixels.device() == stream.device()) return pixels;
  const View uploaded = pixels_.view(pixels.shape());
  copy(stream, pixels, uploaded);
  return uploaded;
}

// Returns the rows that the projector takes.
View VitEncoder::merge(Stream& stream, View hidden, std::int64_t frames) {
  const std::int64_t stride = spec().pool_stride;
  const bool has_only_patches = spec().class_tokens == 0 && stride == 1;
  if (spec().keeps_class_token || has_only_patches) return hidden;
  const std::int64_t grid = spec().grid();
  const std::int64_t edge = grid / stride;
  const std::int64_t dim = hidden.dim(1);
  // The class token is the first of each frame: start one row later and skip it between frames.
  const std::int64_t skipped = spec().class_tokens;
  const ConstView patches(hidden.rows(skipped, hidden.dim(0) - skipped).raw(), DType::kF32,
                          {frames, grid, grid, dim}, tower_.tokens_per_frame() * dim,
                          hidden.device());
  const Shape merged_shape = {frames, edge, edge, spec().merged_columns()};
  const View merged = merged_.view({frames * edge * edge, spec().merged_columns()});
  const View merged_grid = merged.reshape(merged_shape);
  switch (spec().merge) {
    case PatchMerge::kMean:
      kernels::pool_2d(stream, patches, kernels::Pooling::kMean, stride, merged_grid);
      break;
    case PatchMerge::kMax:
      kernels::pool_2d(stream, patches, kernels::Pooling::kMax, stride, merged_grid);
      break;
    case PatchMerge::kConvolution: {
      const View windows = windows_.view({frames * edge * edge, stride * stride * dim});
      kernels::merge_patches(stream, patches, stride, kernels::MergeOrder::kChannelMajor,
                             windows.reshape({frames, edge, edge, stride * stride * dim}));
      kernels::linear(stream, windows, convolution_->weight, convolution_->bias, merged);
      break;
    }
    case PatchMerge::kShuffle:
      kernels::merge_patches(stream, patches, stride, kernels::MergeOrder::kPatchMajor,
                             merged_grid);
      break;
  }
  return merged;
}

// Overwrites `rows` if there is a norm.
void VitEncoder::project(Stream& stream, View rows, View projected) {
  if (spec().projector_norm) {
    kernels::layer_norm(stream, rows, projector_norm_.weight, projector_norm_.bias,
                        kProjectorNormEps, rows);
  }
  if (projector_.empty()) return copy(stream, rows, projected);
  ConstView x = rows;
  for (std::size_t i = 0; i + 1 < projector_.size(); ++i) {
    const View inner = inner_[i % 2].view({x.dim(0), projector_[i].weight.num_features()});
    linear_activated(stream, spec().projector_activation, x, projector_[i], inner);
    x = inner;
  }
  kernels::linear(stream, x, projector_.back().weight, projector_.back().bias, projected);
}

std::unique_ptr<FrameResampler> make_frame_resampler(const PlacedWeights& weights,
                                                     const Blueprint& blueprint) {
  const VisionSpec& spec = blueprint.vision.value();
  if (spec.perceiver) return std::make_unique<PerceiverResampler>(weights, blueprint);
  if (spec.c_abstractor) return std::make_unique<CAbstractor>(weights, blueprint);
  return nullptr;
}

std::unique_ptr<VisionEncoder> make_vision_encoder(const PlacedWeights& weights,
                                                   const Blueprint& blueprint) {
  if (!blueprint.qwen_tower.blocks.empty()) {
    return std::make_unique<QwenVisionEncoder>(weights, blueprint);
  }
  return std::make_unique<VitEncoder>(weights, blueprint);
}

}  // namespace caption::model
