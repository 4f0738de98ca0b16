#include "model/vision_spec.h"

#include <algorithm>

#include "kernels/weight.h"

namespace caption::model {
namespace {

constexpr std::int64_t kFloatBytes = 4;  // activations on the CPU

// Numbers of patches along both edges.
struct Grid {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

Grid grid_of(const VisionSpec& spec, const ClipShape& clip) {
  if (spec.image_px > 0) return {spec.image_px / spec.patch_px, spec.image_px / spec.patch_px};
  const vision::ImageSize size =
      vision::output_size({.smart = spec.resize, .do_center_crop = false}, clip.num_frames,
                          {clip.frame.height_px, clip.frame.width_px});
  return {size.height_px / spec.patch_px, size.width_px / spec.patch_px};
}

// Numbers of rows of the projector's input along both edges.
Grid merged_grid(const VisionSpec& spec, const ClipShape& clip) {
  const Grid grid = grid_of(spec, clip);
  return {grid.rows / spec.pool_stride, grid.columns / spec.pool_stride};
}

// Rows of one image that the projector takes.
std::int64_t merged_rows(const VisionSpec& spec, const ClipShape& clip) {
  if (spec.keeps_class_token) return tower_tokens(spec, clip);
  const Grid grid = merged_grid(spec, clip);
  return grid.rows * grid.columns;
}

}  // namespace

std::int64_t tower_tokens(const VisionSpec& spec, const ClipShape& clip) {
  const Grid grid = grid_of(spec, clip);
  return grid.rows * grid.columns + spec.class_tokens;
}

std::int64_t tokens_per_image(const VisionSpec& spec, const ClipShape& clip) {
  if (spec.perceiver) return spec.perceiver->latents;
  if (spec.c_abstractor) return spec.c_abstractor->tokens();
  if (spec.keeps_class_token) return tower_tokens(spec, clip);
  const Grid grid = merged_grid(spec, clip);
  const auto resized = [&](std::int64_t edge) {
    return (edge + spec.resize_stride - 1) / spec.resize_stride;
  };
  return resized(grid.rows) * resized(grid.columns);
}

std::int64_t num_images(const VisionSpec& spec, std::int64_t num_frames) {
  return (num_frames + spec.frames_per_image - 1) / spec.frames_per_image;
}

std::int64_t num_vision_tokens(const VisionSpec& spec, const ClipShape& clip) {
  return num_images(spec, clip.num_frames) * tokens_per_image(spec, clip) +
         (spec.ends_with_newline ? 1 : 0);
}

namespace {

constexpr std::int64_t kRoundedBytes = 2;  // bf16

}  // namespace

std::int64_t pass_rows(const VisionSpec& spec) {
  // Hidden, its norm, q, k and v, and features; keys and values rounded; pixels.
  const std::int64_t row_bytes = kFloatBytes * spec.hidden * (5 + std::ssize(spec.feature_layers)) +
                                 2 * kRoundedBytes * spec.hidden +
                                 kFloatBytes * spec.patch_values();
  const std::int64_t most =
      spec.image_px > 0 ? kMaxPassFrames * tower_tokens(spec, {}) : kMaxPassRows;
  return std::min(most, kPassBytes / row_bytes);
}

std::int64_t images_per_pass(const VisionSpec& spec, std::int64_t rows) {
  return std::max<std::int64_t>(1, pass_rows(spec) / rows);
}

namespace {

// As QwenVisionEncoder holds them.
std::int64_t dynamic_scratch_bytes(Device device, const VisionSpec& spec, const ClipShape& clip,
                                   bool is_rounded) {
  const std::int64_t patches = tower_tokens(spec, clip);
  const std::int64_t rows = images_per_pass(spec, patches) * patches;
  // Hidden, its norm (later the output of attention), and q, k and v.
  const std::int64_t held = rows * 5 * spec.hidden + patches * spec.head_dim();
  // Patch columns, the inner activations of an MLP for a limited number of rows, those of a merger.
  const std::int64_t wide =
      std::max({rows * spec.patch_values(),
                std::min(rows, tower_piece_rows(device)) * spec.intermediate, rows * spec.hidden});
  // The order of the windows and its inverse.
  const std::int64_t order = spec.qwen.window > 0 ? 2 * rows / spec.merged_patches() : 0;
  return kFloatBytes * (held + wide + order) +
         (is_rounded ? kRoundedBytes * 2 * rows * spec.hidden : 0);
}

// Numbers that PerceiverResampler holds for frames of `rows` rows each.
std::int64_t perceiver_scratch(const PerceiverSpec& spec, std::int64_t frames, std::int64_t rows) {
  const std::int64_t keys = rows + spec.latents;
  const std::int64_t latents = frames * spec.latents;
  std::int64_t wide = std::max(frames * rows * spec.input_intermediate, latents * spec.q_dim());
  for (const std::int64_t width : spec.intermediates) wide = std::max(wide, latents * width);
  const bool has_input = spec.input || spec.input_intermediate > 0;
  return (has_input ? frames * rows * spec.hidden : 0) + wide + 2 * latents * spec.hidden +
         frames * keys * (spec.hidden + 2 * spec.kv_dim()) + latents * spec.q_dim();
}

// Numbers that CAbstractor holds for frames of `rows` rows of `columns` each.
std::int64_t c_abstractor_scratch(const CAbstractorSpec& spec, std::int64_t frames,
                                  std::int64_t rows, std::int64_t columns) {
  const std::int64_t taken = frames * rows;
  std::int64_t inner = 0;
  std::int64_t squeeze = 0;
  std::int64_t width = 0;
  std::int64_t shortcut = 0;
  std::int64_t outputs[2] = {0, 0};
  std::size_t turn = 0;
  const auto add = [&](const std::vector<RegBlockSpec>& blocks, std::int64_t of_rows) {
    for (const RegBlockSpec& block : blocks) {
      inner = std::max(inner, of_rows * block.inner);
      width = std::max(width, block.inner);
      squeeze = std::max(squeeze, block.squeeze);
      if (block.has_shortcut) shortcut = std::max(shortcut, of_rows * block.out);
      outputs[turn] = std::max(outputs[turn], of_rows * block.out);
      turn = 1 - turn;
    }
  };
  add(spec.before, taken);
  add(spec.after, frames * spec.tokens());
  const std::int64_t pooled = std::max(frames * spec.tokens() * spec.before.back().out,
                                       spec.has_norm ? taken * columns : 0);
  return (spec.position_rows > 0 ? taken * columns : 0) + 2 * inner +
         frames * (2 * width + squeeze) + shortcut + outputs[0] + outputs[1] + pooled;
}

// Numbers that the part of the projector before its layers holds.
std::int64_t resampler_scratch(const VisionSpec& spec, std::int64_t frames, std::int64_t rows) {
  if (spec.perceiver) return perceiver_scratch(*spec.perceiver, frames, rows);
  if (!spec.c_abstractor) return 0;
  return c_abstractor_scratch(*spec.c_abstractor, frames, rows, spec.merged_columns());
}

}  // namespace

std::int64_t encoder_scratch_bytes(const Context& context, const VisionSpec& spec,
                                   const ClipShape& clip, weights::WeightFormat format) {
  const bool is_rounded =
      kernels::rounds_input(context, weights::matrix_format(format, weights::Role::kEncoderLinear));
  if (spec.image_px == 0) return dynamic_scratch_bytes(context.device, spec, clip, is_rounded);
  const std::int64_t tokens = tower_tokens(spec, clip);
  const std::int64_t images = images_per_pass(spec, tokens);
  const std::int64_t patches = tokens - spec.class_tokens;
  const std::int64_t merged = merged_rows(spec, clip);
  // Five arrays of the tower's width: hidden, its norm (later the output of attention), q, k and v.
  std::int64_t per_image = tokens * 5 * spec.hidden;
  per_image += tokens * spec.hidden * std::ssize(spec.feature_layers);
  // Patch columns, then the inner activations of an MLP for a limited number of rows.
  const std::int64_t wide =
      std::max(images * patches * spec.patch_values(),
               std::min(images * tokens, tower_piece_rows(context.device)) * spec.intermediate);
  const bool has_only_patches = spec.class_tokens == 0 && spec.pool_stride == 1;
  if (!spec.keeps_class_token && !has_only_patches) per_image += merged * spec.merged_columns();
  if (spec.merge == PatchMerge::kConvolution) {
    per_image += merged * spec.hidden * spec.pool_stride * spec.pool_stride;
  }
  // The last layer of the projector writes the result directly, unless that is resized. Two of the
  // other layers' outputs are held at a time.
  const std::size_t written_directly = spec.resize_stride > 1 ? 0 : 1;
  // Rows of an image that the layers of the projector take.
  const bool is_resampled = spec.perceiver || spec.c_abstractor;
  const std::int64_t projected = is_resampled ? tokens_per_image(spec, clip) : merged;
  std::int64_t widest[2] = {0, 0};
  for (std::size_t i = 0; i + written_directly < spec.projector.size(); ++i) {
    widest[i % 2] = std::max(widest[i % 2], projected * spec.projector[i].out);
  }
  per_image += widest[0] + widest[1];
  const std::int64_t rounded = is_rounded ? 2 * images * tokens * spec.hidden : 0;
  return kFloatBytes * (images * per_image + wide + resampler_scratch(spec, images, merged)) +
         kRoundedBytes * rounded;
}

namespace {

// Operations of the attention of all layers for one image of `tokens` tokens.
double attention_flops(const VisionSpec& spec, double tokens) {
  const auto layers = static_cast<double>(spec.num_layers);
  const double per_key = 4 * tokens * static_cast<double>(spec.hidden);
  if (spec.qwen.window == 0) return layers * per_key * tokens;
  const auto full = static_cast<double>(spec.full_attention_layers.size());
  const auto edge = static_cast<double>(spec.qwen.window * spec.pool_stride);
  return per_key * (full * tokens + (layers - full) * std::min(tokens, edge * edge));
}

// Operations of the part of the projector before its layers, for one image of `rows` rows.
double resampler_flops(const VisionSpec& spec, double rows) {
  if (spec.perceiver) {
    const PerceiverSpec& perceiver = *spec.perceiver;
    const auto hidden = static_cast<double>(perceiver.hidden);
    const auto latents = static_cast<double>(perceiver.latents);
    const auto q_dim = static_cast<double>(perceiver.q_dim());
    const bool is_gated = perceiver.variant == PerceiverVariant::kIdefics2;
    double flops = 2 * rows * static_cast<double>(perceiver.input_intermediate) *
                   static_cast<double>(2 * spec.merged_columns() + perceiver.hidden);
    if (perceiver.input) flops += 2 * rows * static_cast<double>(perceiver.input->num_weights());
    for (const std::int64_t width : perceiver.intermediates) {
      flops += 4 * latents * hidden * q_dim +
               4 * (rows + latents) * hidden * static_cast<double>(perceiver.kv_dim()) +
               4 * latents * (rows + latents) * q_dim +
               (is_gated ? 6 : 4) * latents * hidden * static_cast<double>(width);
    }
    return flops;
  }
  if (!spec.c_abstractor) return 0;
  double flops = 0;
  for (const RegBlockSpec& block : spec.c_abstractor->before) {
    flops += 2 * rows * static_cast<double>(block.num_weights());
  }
  for (const RegBlockSpec& block : spec.c_abstractor->after) {
    flops += 2 * static_cast<double>(spec.c_abstractor->tokens() * block.num_weights());
  }
  return flops;
}

}  // namespace

double encoder_flops(const VisionSpec& spec, const ClipShape& clip) {
  const auto tokens = static_cast<double>(tower_tokens(spec, clip));
  const auto merged = static_cast<double>(merged_rows(spec, clip));
  const auto hidden = static_cast<double>(spec.hidden);
  const double mlp_layers = spec.qwen.gated_mlp ? 3 : 2;
  const double layer_weights =
      4 * hidden * hidden + mlp_layers * hidden * static_cast<double>(spec.intermediate);
  double flops = static_cast<double>(spec.num_layers) * 2 * tokens * layer_weights +
                 attention_flops(spec, tokens) +
                 2 * tokens * hidden * static_cast<double>(spec.patch_values());
  flops += resampler_flops(spec, merged);
  const bool is_resampled = spec.perceiver || spec.c_abstractor;
  const double projected =
      is_resampled ? static_cast<double>(tokens_per_image(spec, clip)) : merged;
  for (const LinearSpec& layer : spec.projector) {
    flops += 2 * projected * static_cast<double>(layer.num_weights());
  }
  if (spec.merge == PatchMerge::kConvolution) {
    const auto window = static_cast<double>(spec.pool_stride * spec.pool_stride);
    flops += 2 * merged * hidden * hidden * window;
  }
  return flops * static_cast<double>(num_images(spec, clip.num_frames));
}

}  // namespace caption::model
