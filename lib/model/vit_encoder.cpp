#include "model/internal/vit_encoder.h"

#include <string>
#include <vector>

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
            (spec.keeps_class_token ? ", and with the class token kept there is no pooling" : "") +
            "; mend the stride in the configuration");
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

std::int64_t VitEncoder::scratch_bytes() const {
  std::int64_t sum = tower_.scratch_bytes();
  for (const Scratch* const scratch : {&windows_, &merged_, &resized_, &inner_[0], &inner_[1]}) {
    sum += scratch->size_bytes();
  }
  return resampler_ == nullptr ? sum : sum + resampler_->scratch_bytes();
}

void VitEncoder::encode_pass(Stream& stream, std::span<const ImageRun> runs) {
  std::vector<ConstView> pixels;
  std::int64_t frames = 0;
  for (const ImageRun& run : runs) {
    pixels.push_back(run.pixels);
    frames += run.pixels.dim(0);
  }
  const View hidden = tower_.forward(stream, pixels);
  View rows = merge(stream, hidden, frames);
  if (resampler_ != nullptr) rows = resampler_->forward(stream, rows, frames);
  project(stream, rows, runs);
}

void VitEncoder::write_rest(Stream& stream, View rest) {
  kernels::convert(stream, newline_.reshape(rest.shape()), rest);
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

// Writes the tokens of all runs; overwrites `rows` if there is a norm.
void VitEncoder::project(Stream& stream, View rows, std::span<const ImageRun> runs) {
  if (spec().projector_norm) {
    kernels::layer_norm(stream, rows, projector_norm_.weight, projector_norm_.bias,
                        kProjectorNormEps, rows);
  }
  ConstView x = rows;
  // The last layer writes the tokens of each run, unless those are resized.
  const std::size_t written_directly = spec().resize_stride > 1 ? 0 : 1;
  for (std::size_t i = 0; i + written_directly < projector_.size(); ++i) {
    const bool is_last = i + 1 == projector_.size();
    Scratch& scratch = is_last ? resized_ : inner_[i % 2];
    const View inner = scratch.view({x.dim(0), projector_[i].weight.num_features()});
    if (is_last) {
      kernels::linear(stream, x, projector_[i].weight, projector_[i].bias, inner);
    } else {
      linear_activated(stream, spec().projector_activation, x, projector_[i], inner);
    }
    x = inner;
  }
  std::int64_t frames = 0;
  for (const ImageRun& run : runs) frames += run.pixels.dim(0);
  const std::int64_t rows_per_frame = x.dim(0) / frames;
  std::int64_t first = 0;
  for (const ImageRun& run : runs) {
    const std::int64_t count = run.pixels.dim(0) * rows_per_frame;
    write_tokens(stream, x.rows(first, count), run);
    first += count;
  }
}

void VitEncoder::write_tokens(Stream& stream, ConstView rows, const ImageRun& run) const {
  if (spec().resize_stride > 1) return resize(stream, rows, run);
  if (projector_.empty()) return copy(stream, rows, run.tokens);
  const LinearWeights& last = projector_.back();
  kernels::linear(stream, rows, last.weight, last.bias, run.tokens);
}

void VitEncoder::resize(Stream& stream, ConstView rows, const ImageRun& run) const {
  const std::int64_t frames = run.pixels.dim(0);
  const std::int64_t edge = spec().grid() / spec().pool_stride;
  const std::int64_t out = (edge + spec().resize_stride - 1) / spec().resize_stride;
  kernels::resize_bilinear(stream, rows.reshape({frames, edge, edge, token_width()}),
                           run.tokens.reshape({frames, out, out, token_width()}));
}

std::unique_ptr<FrameResampler> make_frame_resampler(const PlacedWeights& weights,
                                                     const Blueprint& blueprint) {
  const VisionSpec& spec = blueprint.vision.value();
  if (spec.perceiver) return std::make_unique<PerceiverResampler>(weights, blueprint);
  if (spec.c_abstractor) return std::make_unique<CAbstractor>(weights, blueprint);
  return nullptr;
}

}  // namespace caption::model
