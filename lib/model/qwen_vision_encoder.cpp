#include "model/internal/qwen_vision_encoder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/math.h"
#include "kernels/attention.h"
#include "kernels/linear.h"
#include "kernels/norm.h"
#include "kernels/rope.h"
#include "kernels/rows.h"
#include "model/internal/attention_key.h"
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

kernels::PatchGrid grid_of(const VisionSpec& spec, ConstView pixels) {
  CAPTION_CHECK(pixels.shape().rank() == 4 && pixels.dim(1) == 3,
                "pixel values " + pixels.shape().to_string());
  const kernels::PatchGrid grid = {.rows = pixels.dim(2) / spec.patch_px,
                                   .columns = pixels.dim(3) / spec.patch_px,
                                   .merge = spec.pool_stride};
  CAPTION_CHECK(grid.num_patches() > 0,
                "pixel values " + pixels.shape().to_string() + " without a patch");
  return grid;
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

std::int64_t QwenVisionEncoder::image_tokens(const ClipShape& clip) const {
  const std::int64_t unit_px = spec_.patch_px * spec_.pool_stride;
  return clip.frame.height_px / unit_px * (clip.frame.width_px / unit_px);
}

std::int64_t QwenVisionEncoder::scratch_bytes() const {
  std::int64_t sum = 0;
  for (const Scratch* const scratch :
       {&hidden_, &normed_, &qkv_, &rounded_k_, &rounded_v_, &wide_}) {
    sum += scratch->size_bytes();
  }
  for (const Image& image : images_) {
    for (const Tensor* const table : {&image.rope_table, &image.from_grid, &image.to_grid}) {
      sum += static_cast<std::int64_t>(table->size_bytes());
    }
  }
  return sum;
}

void QwenVisionEncoder::prepare(Stream& stream, std::span<const ConstView> clips) {
  images_.clear();
  std::vector<kernels::PatchGrid> grids;
  std::vector<std::int64_t> counts;  // images of each grid
  for (const ConstView& pixels : clips) {
    const kernels::PatchGrid grid = grid_of(spec_, pixels);
    const auto known = std::find(grids.begin(), grids.end(), grid);
    const std::int64_t images = num_images(spec_, pixels.dim(0));
    if (known == grids.end()) {
      grids.push_back(grid);
      counts.push_back(images);
    } else {
      counts[static_cast<std::size_t>(known - grids.begin())] += images;
    }
  }
  for (std::size_t i = 0; i < grids.size(); ++i) {
    const std::int64_t most = images_per_pass(spec_, grids[i].num_patches());
    images_.push_back(make_image(stream, grids[i], std::min(counts[i], most)));
  }
}

const QwenVisionEncoder::Image& QwenVisionEncoder::image_of(ConstView pixels) const {
  const kernels::PatchGrid grid = grid_of(spec_, pixels);
  const auto image = std::find_if(images_.begin(), images_.end(),
                                  [&](const Image& known) { return known.grid == grid; });
  CAPTION_CHECK(image != images_.end(), "images of a size that was not prepared");
  return *image;
}

void QwenVisionEncoder::encode_pass(Stream& stream, std::span<const ImageRun> runs) {
  std::vector<Rows> parts;
  std::int64_t rows = 0;
  for (const ImageRun& run : runs) {
    const Image& image = image_of(run.pixels);
    const std::int64_t count = num_images(spec_, run.pixels.dim(0)) * image.grid.num_patches();
    parts.push_back({.image = &image, .run = &run, .first = rows, .count = count});
    rows += count;
  }
  const View x = embed(stream, parts);
  const Shape joined = {rows / spec_.merged_patches(), spec_.merged_patches() * spec_.hidden};
  std::size_t level = 0;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    attend(stream, blocks_[i], parts, x);
    mlp(stream, blocks_[i], x);
    if (level == deepstack_.size() ||
        spec_.deepstack_layers[level] != static_cast<std::int64_t>(i)) {
      continue;
    }
    const Merger& merger = deepstack_[level++];
    const View normed = normed_.view(joined);
    norm(stream, x.reshape(joined), merger.norm, normed);
    merge(stream, merger, normed, parts, static_cast<std::int64_t>(level));
  }
  const View normed = normed_.view(x.shape());
  norm(stream, x, merger_.norm, normed);
  View ordered = normed;
  if (spec_.qwen.window > 0) {
    ordered = x;
    reorder(stream, parts, normed, false, ordered);
  }
  merge(stream, merger_, ordered.reshape(joined), parts, 0);
}

QwenVisionEncoder::Image QwenVisionEncoder::make_image(Stream& stream,
                                                       const kernels::PatchGrid& grid,
                                                       std::int64_t max_images) const {
  const std::int64_t patches = grid.num_patches();
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
    from_grid = repeat_order(windows, max_images);
    to_grid = invert_order(from_grid);
    image.from_grid = on_device(from_grid);
    image.to_grid = on_device(to_grid);
  }
  stream.synchronize();  // the copies end here
  return image;
}

ConstView QwenVisionEncoder::upload(Stream& stream, ConstView pixels) {
  if (pixels.device() == stream.device()) return pixels;
  const View uploaded = pixels_.view(pixels.shape());
  copy(stream, pixels, uploaded);
  return uploaded;
}

View QwenVisionEncoder::embed(Stream& stream, std::span<const Rows> parts) {
  const std::int64_t rows = parts.back().first + parts.back().count;
  const View columns = wide_.view({rows, spec_.patch_values()});
  for (const Rows& part : parts) {
    kernels::im2col_grid(
        stream, upload(stream, part.run->pixels),
        {.frames = spec_.frames_per_image, .patch_px = spec_.patch_px, .merge = spec_.pool_stride},
        part.of(columns));
  }
  const View x = hidden_.view({rows, spec_.hidden});
  const bool has_windows = spec_.qwen.window > 0;
  const View embedded = has_windows ? normed_.view(x.shape()) : x;
  kernels::linear(stream, columns, patch_embedding_.weight, patch_embedding_.bias, embedded);
  if (!positions_.empty()) {
    for (const Rows& part : parts) {
      kernels::add_grid_positions(stream, positions_, part.image->grid, part.of(embedded));
    }
  }
  if (has_windows) reorder(stream, parts, embedded, true, x);
  return x;
}

void QwenVisionEncoder::reorder(Stream& stream, std::span<const Rows> parts, View x,
                                bool to_windows, View y) const {
  for (const Rows& part : parts) {
    const Shape joined = {part.count / spec_.merged_patches(),
                          spec_.merged_patches() * spec_.hidden};
    const Tensor& order = to_windows ? part.image->from_grid : part.image->to_grid;
    kernels::gather_rows(stream, part.of(x).reshape(joined), order.view().rows(0, joined[0]),
                         part.of(y).reshape(joined));
  }
}

void QwenVisionEncoder::norm(Stream& stream, ConstView x, const NormWeights& weights,
                             View y) const {
  if (spec_.qwen.norm == Norm::kRms) {
    return kernels::rms_norm(stream, x, weights.weight, spec_.layer_norm_eps, y);
  }
  kernels::layer_norm(stream, x, weights.weight, weights.bias, spec_.layer_norm_eps, y);
}

void QwenVisionEncoder::attend(Stream& stream, const Block& block, std::span<const Rows> parts,
                               View x) {
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
  for (const Rows& part : parts) {
    const std::int64_t patches = part.image->grid.num_patches();
    const ConstView table = part.image->rope_table.view();
    for (std::int64_t first = part.first; first < part.first + part.count; first += patches) {
      kernels::rope(stream, table, q.rows(first, patches));
      kernels::rope(stream, table, k.rows(first, patches));
    }
  }
  const ConstView keys = as_key(stream, block.qkv.weight, k, rounded_k_);
  const ConstView values = as_key(stream, block.qkv.weight, v, rounded_v_);
  const View attended = normed;  // reuses the memory: q, k and v no longer need it
  for (const Rows& part : parts) {
    const kernels::AttentionInput input = {
        .q = part.of(q),
        .k = keys.rows(part.first, part.count),
        .v = values.rows(part.first, part.count),
        .seq_len = part.image->grid.num_patches(),
        .scale = 1.0F / std::sqrt(static_cast<float>(spec_.head_dim()))};
    const View y = part.of(attended.reshape(heads));
    if (block.attends_in_windows) {
      attend_in_windows(stream, input, part.image->windows, y);
    } else {
      kernels::attention(stream, input, y);
    }
  }
  kernels::linear_add(stream, attended, block.proj.weight, block.proj.bias, x);
}

// Attends inside the windows of all images of `input`, whose seq_len is an image's.
void QwenVisionEncoder::attend_in_windows(Stream& stream, const kernels::AttentionInput& input,
                                          std::span<const EqualWindows> all, View y) const {
  std::int64_t first = 0;
  while (first < y.dim(0)) {
    for (const EqualWindows& windows : all) {
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

void QwenVisionEncoder::mlp(Stream& stream, const Block& block, View x) {
  const View normed = normed_.view(x.shape());
  norm(stream, x, block.norm_2, normed);
  const std::int64_t piece_rows = tower_piece_rows(stream.device());
  for (std::int64_t first = 0; first < x.dim(0); first += piece_rows) {
    const std::int64_t count = std::min(piece_rows, x.dim(0) - first);
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

void QwenVisionEncoder::merge(Stream& stream, const Merger& merger, ConstView x,
                              std::span<const Rows> parts, std::int64_t level) {
  const View inner = wide_.view({x.dim(0), merger.fc1.weight.num_features()});
  kernels::linear_gelu(stream, x, merger.fc1.weight, merger.fc1.bias, inner);
  for (const Rows& part : parts) {
    const View rows = inner.rows(part.first / spec_.merged_patches(), part.run->tokens.dim(0));
    kernels::linear(stream, rows, merger.fc2.weight, merger.fc2.bias,
                    part.run->tokens.columns(level * out_, out_));
  }
}

}  // namespace caption::model
