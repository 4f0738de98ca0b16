#include "model/internal/qwen_vision_encoder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/math.h"
#include "kernels/attention.h"
#include "kernels/convert.h"
#include "kernels/linear.h"
#include "kernels/norm.h"
#include "kernels/rope.h"
#include "kernels/rows.h"
#include "tensor/copy.h"

namespace caption::model {
namespace {

// 1 / 10000^(2i / (head_dim / 2)), once for a patch's row and once for its column.
Tensor make_inv_freq(std::int64_t head_dim) {
  const std::int64_t half = head_dim / 2;
  Tensor inv_freq(DType::kF32, {half});
  for (std::int64_t i = 0; i < half; ++i) {
    const float exponent = static_cast<float>(2 * (i % (half / 2))) / static_cast<float>(half);
    inv_freq.as<float>()[i] = 1.0F / std::pow(10000.0F, exponent);
  }
  return inv_freq;
}

Tensor make_rope_axis(std::int64_t head_dim) {
  const std::int64_t half = head_dim / 2;
  Tensor axis(DType::kI32, {half});
  for (std::int64_t i = 0; i < half; ++i) axis.as<std::int32_t>()[i] = i < half / 2 ? 0 : 1;
  return axis;
}

// Returns the largest square of entries; the reference leaves the rest of the table unused.
ConstView square_table(ConstView table) {
  if (table.empty()) return table;
  std::int64_t side = 1;
  while ((side + 1) * (side + 1) <= table.dim(0)) ++side;
  return table.rows(0, side * side);
}

std::int64_t max_images_per_pass(std::int64_t patches) {
  return std::max<std::int64_t>(1, QwenVisionEncoder::kPassRows / patches);
}

// Returns [2, patches]: row and column of the patches in the order of `windows`, or in the grid's.
Tensor make_places(const kernels::PatchGrid& grid, const AttentionWindows& windows) {
  const std::int64_t patches = grid.num_patches();
  const std::int64_t merged = grid.merge * grid.merge;
  Tensor places(DType::kI32, {2, patches});
  for (std::int64_t k = 0; k < patches; ++k) {
    const std::int64_t token =
        windows.order.empty() ? k / merged : windows.order[static_cast<std::size_t>(k / merged)];
    const kernels::PatchPlace place = kernels::patch_place(grid, token * merged + k % merged);
    places.as<std::int32_t>()[k] = static_cast<std::int32_t>(place.row);
    places.as<std::int32_t>()[patches + k] = static_cast<std::int32_t>(place.column);
  }
  return places;
}

// The row-major indices of the vision tokens in the order of `windows`, for `images` images after
// one another.
Tensor repeat_order(const AttentionWindows& windows, std::int64_t images) {
  const auto per_image = std::ssize(windows.order);
  Tensor order(DType::kI32, {images * per_image});
  for (std::int64_t i = 0; i < images * per_image; ++i) {
    const std::int64_t first = i / per_image * per_image;
    order.as<std::int32_t>()[i] =
        static_cast<std::int32_t>(first + windows.order[static_cast<std::size_t>(i % per_image)]);
  }
  return order;
}

Tensor invert_order(const Tensor& order) {
  Tensor inverse(DType::kI32, order.shape());
  for (std::int64_t i = 0; i < order.num_elements(); ++i) {
    inverse.as<std::int32_t>()[order.as<std::int32_t>()[i]] = static_cast<std::int32_t>(i);
  }
  return inverse;
}

}  // namespace

QwenVisionEncoder::QwenVisionEncoder(const PlacedWeights& weights, const Blueprint& blueprint)
    : spec_(blueprint.vision.value()),
      out_(blueprint.text.value().hidden),
      patch_embedding_(weights.linear(blueprint.qwen_tower.patch_embedding)),
      positions_(square_table(weights.vector(blueprint.qwen_tower.positions))),
      merger_(merger(weights, blueprint.qwen_tower.merger)),
      inv_freq_(make_inv_freq(spec_.head_dim())),
      rope_axis_(make_rope_axis(spec_.head_dim())),
      pixels_(weights.device()),
      hidden_(weights.device()),
      normed_(weights.device()),
      qkv_(weights.device()),
      rounded_k_(weights.device(), DType::kBF16),
      rounded_v_(weights.device(), DType::kBF16),
      wide_(weights.device()) {
  CAPTION_CHECK(spec_.qwen.window == 0 || spec_.deepstack_layers.empty(),
                "DeepStack rows in the order of windows");
  const std::vector<std::int64_t>& full = spec_.full_attention_layers;
  for (const QwenBlockIds& ids : blueprint.qwen_tower.blocks) {
    const bool is_full = std::find(full.begin(), full.end(), std::ssize(blocks_)) != full.end();
    blocks_.push_back({.norm_1 = weights.norm(ids.norm_1),
                       .qkv = weights.linear(ids.qkv),
                       .proj = weights.linear(ids.proj),
                       .norm_2 = weights.norm(ids.norm_2),
                       .fc1 = weights.linear(ids.fc1),
                       .fc2 = weights.linear(ids.fc2),
                       .gate = {},
                       .attends_in_windows = spec_.qwen.window > 0 && !is_full});
    if (spec_.qwen.gated_mlp) blocks_.back().gate.emplace(weights.linear(ids.gate));
  }
  for (const QwenMergerIds& ids : blueprint.qwen_tower.deepstack) {
    deepstack_.push_back(merger(weights, ids));
  }
}

QwenVisionEncoder::Merger QwenVisionEncoder::merger(const PlacedWeights& weights,
                                                    const QwenMergerIds& ids) const {
  return {.norm = weights.norm(ids.norm),
          .fc1 = weights.linear(ids.fc1),
          .fc2 = weights.linear(ids.fc2)};
}

std::int64_t QwenVisionEncoder::num_tokens(const ClipShape& clip) const {
  const std::int64_t unit_px = spec_.patch_px * spec_.pool_stride;
  return num_images(spec_, clip.num_frames) * (clip.frame.height_px / unit_px) *
         (clip.frame.width_px / unit_px);
}

Tensor QwenVisionEncoder::encode(Stream& stream, ConstView pixels) {
  const Image image = make_image(stream, pixels);
  const std::int64_t patches = image.grid.num_patches();
  const std::int64_t per_image = patches / spec_.merged_patches();
  const std::int64_t images = num_images(spec_, pixels.dim(0));
  Tensor tokens(DType::kF32, {images * per_image, out_ * (1 + std::ssize(deepstack_))},
                stream.device());
  const std::int64_t images_per_pass = max_images_per_pass(patches);
  for (std::int64_t first = 0; first < images; first += images_per_pass) {
    const std::int64_t first_frame = first * spec_.frames_per_image;
    const std::int64_t count = std::min(images_per_pass, images - first);
    const std::int64_t frames =
        std::min(count * spec_.frames_per_image, pixels.dim(0) - first_frame);
    encode_pass(stream, pixels.rows(first_frame, frames), image,
                tokens.view().rows(first * per_image, count * per_image));
  }
  stream.synchronize();  // the image's tables are freed here
  return tokens;
}

void QwenVisionEncoder::encode_pass(Stream& stream, ConstView pixels, const Image& image,
                                    View tokens) {
  const View x = embed(stream, pixels, image);
  const Shape joined = {tokens.dim(0), spec_.merged_patches() * spec_.hidden};
  std::size_t level = 0;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    attend(stream, blocks_[i], image, x);
    mlp(stream, blocks_[i], x);
    if (level == deepstack_.size() ||
        spec_.deepstack_layers[level] != static_cast<std::int64_t>(i)) {
      continue;
    }
    const Merger& merger = deepstack_[level++];
    const View normed = normed_.view(joined);
    norm(stream, x.reshape(joined), merger.norm, normed);
    merge(stream, merger, normed, tokens.columns(static_cast<std::int64_t>(level) * out_, out_));
  }
  const View normed = normed_.view(x.shape());
  norm(stream, x, merger_.norm, normed);
  View ordered = normed;
  if (!image.windows.empty()) {
    ordered = x;
    kernels::gather_rows(stream, normed.reshape(joined),
                         image.to_grid.view().rows(0, tokens.dim(0)), ordered.reshape(joined));
  }
  merge(stream, merger_, ordered, tokens.columns(0, out_));
}

QwenVisionEncoder::Image QwenVisionEncoder::make_image(Stream& stream, ConstView pixels) const {
  CAPTION_CHECK(pixels.shape().rank() == 4 && pixels.dim(1) == 3,
                "pixel values " + pixels.shape().to_string());
  const kernels::PatchGrid grid = {.rows = pixels.dim(2) / spec_.patch_px,
                                   .columns = pixels.dim(3) / spec_.patch_px,
                                   .merge = spec_.pool_stride};
  const std::int64_t patches = grid.num_patches();
  CAPTION_CHECK(patches > 0, "pixel values " + pixels.shape().to_string() + " without a patch");
  AttentionWindows windows;
  if (spec_.qwen.window > 0) {
    windows =
        divide_into_windows(grid.rows / grid.merge, grid.columns / grid.merge, spec_.qwen.window);
  }
  const Tensor places = make_places(grid, windows);
  Image image{.grid = grid,
              .rope_table = Tensor(DType::kF32, {patches, spec_.head_dim()}, stream.device()),
              .windows = windows.sizes,
              .from_grid = {},
              .to_grid = {}};
  const auto on_device = [&](const Tensor& tensor) {
    return copy_to(stream, stream.device(), tensor.view());
  };
  const Tensor positions = on_device(places);
  const Tensor inv_freq = on_device(inv_freq_);
  const Tensor axis = on_device(rope_axis_);
  kernels::rope_table(
      stream, {.positions = positions.view(), .inv_freq = inv_freq.view(), .axis = axis.view()},
      image.rope_table.view());
  Tensor from_grid, to_grid;
  if (!windows.order.empty()) {
    from_grid = repeat_order(
        windows, std::min(num_images(spec_, pixels.dim(0)), max_images_per_pass(patches)));
    to_grid = invert_order(from_grid);
    image.from_grid = on_device(from_grid);
    image.to_grid = on_device(to_grid);
  }
  stream.synchronize();  // the copies end here
  return image;
}

View QwenVisionEncoder::embed(Stream& stream, ConstView pixels, const Image& image) {
  ConstView on_device = pixels;
  if (pixels.device() != stream.device()) {
    const View uploaded = pixels_.view(pixels.shape());
    copy(stream, pixels, uploaded);
    on_device = uploaded;
  }
  const std::int64_t rows = num_images(spec_, pixels.dim(0)) * image.grid.num_patches();
  const View columns = wide_.view({rows, spec_.patch_values()});
  kernels::im2col_grid(
      stream, on_device,
      {.frames = spec_.frames_per_image, .patch_px = spec_.patch_px, .merge = spec_.pool_stride},
      columns);
  const View x = hidden_.view({rows, spec_.hidden});
  const View embedded = image.windows.empty() ? x : normed_.view(x.shape());
  kernels::linear(stream, columns, patch_embedding_.weight, patch_embedding_.bias, embedded);
  if (!positions_.empty()) kernels::add_grid_positions(stream, positions_, image.grid, embedded);
  if (!image.windows.empty()) {
    const Shape joined = {rows / spec_.merged_patches(), spec_.merged_patches() * spec_.hidden};
    kernels::gather_rows(stream, embedded.reshape(joined),
                         image.from_grid.view().rows(0, joined[0]), x.reshape(joined));
  }
  return x;
}

void QwenVisionEncoder::norm(Stream& stream, ConstView x, const NormWeights& weights,
                             View y) const {
  if (spec_.qwen.norm == Norm::kRms) {
    return kernels::rms_norm(stream, x, weights.weight, spec_.layer_norm_eps, y);
  }
  kernels::layer_norm(stream, x, weights.weight, weights.bias, spec_.layer_norm_eps, y);
}

void QwenVisionEncoder::attend(Stream& stream, const Block& block, const Image& image, View x) {
  const std::int64_t rows = x.dim(0);
  const std::int64_t hidden = spec_.hidden;
  const View normed = normed_.view(x.shape());
  norm(stream, x, block.norm_1, normed);
  const View qkv = qkv_.view({rows, 3 * hidden});
  kernels::linear(stream, normed, block.qkv.weight, block.qkv.bias, qkv);
  const Shape heads = {rows, spec_.num_heads, spec_.head_dim()};
  const View q = qkv.columns(0, hidden).reshape(heads);
  const View k = qkv.columns(hidden, hidden).reshape(heads);
  const View v = qkv.columns(2 * hidden, hidden).reshape(heads);
  const std::int64_t patches = image.grid.num_patches();
  for (std::int64_t first = 0; first < rows; first += patches) {
    kernels::rope(stream, image.rope_table.view(), q.rows(first, patches));
    kernels::rope(stream, image.rope_table.view(), k.rows(first, patches));
  }
  const View attended = normed;  // reuses the memory: q, k and v no longer need it
  const kernels::AttentionInput input = {
      .q = q,
      .k = as_key(stream, block, k, rounded_k_),
      .v = as_key(stream, block, v, rounded_v_),
      .seq_len = patches,
      .scale = 1.0F / std::sqrt(static_cast<float>(spec_.head_dim()))};
  if (block.attends_in_windows) {
    attend_in_windows(stream, input, image, attended.reshape(heads));
  } else {
    kernels::attention(stream, input, attended.reshape(heads));
  }
  kernels::linear_add(stream, attended, block.proj.weight, block.proj.bias, x);
}

// Attends inside the windows of all images of `input`, whose seq_len is an image's.
void QwenVisionEncoder::attend_in_windows(Stream& stream, const kernels::AttentionInput& input,
                                          const Image& image, View y) const {
  std::int64_t first = 0;
  while (first < y.dim(0)) {
    for (const EqualWindows& windows : image.windows) {
      const std::int64_t seq_len = windows.window_units * spec_.merged_patches();
      const std::int64_t rows = windows.num_windows * seq_len;
      kernels::attention(stream,
                         {.q = input.q.rows(first, rows),
                          .k = input.k.rows(first, rows),
                          .v = input.v.rows(first, rows),
                          .seq_len = seq_len,
                          .scale = input.scale},
                         y.rows(first, rows));
      first += rows;
    }
  }
}

// Returns keys or values in the precision in which the layer that projected them took its own
// input: rounded to bf16 if that layer rounds it, so that attention may multiply bf16.
ConstView QwenVisionEncoder::as_key(Stream& stream, const Block& block, ConstView projected,
                                    Scratch& rounded) const {
  if (!block.qkv.weight.rounds_input()) return projected;
  const View to = rounded.view(projected.shape());
  kernels::convert(stream, projected, to);
  return to;
}

void QwenVisionEncoder::mlp(Stream& stream, const Block& block, View x) {
  const View normed = normed_.view(x.shape());
  norm(stream, x, block.norm_2, normed);
  for (std::int64_t first = 0; first < x.dim(0); first += kMlpRows) {
    const std::int64_t count = std::min(kMlpRows, x.dim(0) - first);
    const View inner = wide_.view({count, spec_.intermediate});
    const ConstView input = normed.rows(first, count);
    if (block.gate) {
      kernels::linear_swiglu(stream, input, *block.gate, block.fc1, inner);
    } else {
      kernels::linear_gelu_tanh(stream, input, block.fc1.weight, block.fc1.bias, inner);
    }
    kernels::linear_add(stream, inner, block.fc2.weight, block.fc2.bias, x.rows(first, count));
  }
}

void QwenVisionEncoder::merge(Stream& stream, const Merger& merger, ConstView x, View tokens) {
  const std::int64_t merged = merger.fc1.weight.num_columns();
  const ConstView joined = x.reshape({tokens.dim(0), merged});
  const View inner = wide_.view({tokens.dim(0), merger.fc1.weight.num_features()});
  kernels::linear_gelu(stream, joined, merger.fc1.weight, merger.fc1.bias, inner);
  kernels::linear(stream, inner, merger.fc2.weight, merger.fc2.bias, tokens);
}

}  // namespace caption::model
