#include "model/model_shape.h"

#include <algorithm>

#include "base/counted.h"
#include "base/error.h"
#include "base/json.h"
#include "model/internal/clip_vision_tower.h"
#include "model/internal/config.h"
#include "model/internal/transformer_decoder.h"
#include "weights/checkpoint.h"

namespace caption::model {
namespace {

constexpr std::int64_t kFloatBytes = 4;  // activations on the CPU
// The same number as in vision_encoder.cpp.
constexpr std::int64_t kFramesPerPass = 8;

TextShape to_text_shape(const TextConfig& config) {
  return {.num_layers = config.num_layers,
          .hidden = config.hidden,
          .intermediate = config.intermediate,
          .num_heads = config.num_heads,
          .num_kv_heads = config.num_kv_heads,
          .head_dim = config.head_dim,
          .vocab = config.vocab,
          .max_positions = config.max_positions,
          .tied_embeddings = config.tied_embeddings,
          .qk_norm = config.qk_norm,
          .attention_bias = config.qkv_bias,
          .mlp_bias = config.mlp_bias};
}

VisionShape to_vision_shape(const ClipVisionConfig& config, std::int64_t num_layers) {
  VisionShape shape = {.num_layers = num_layers,
                       .hidden = config.hidden,
                       .intermediate = config.intermediate,
                       .num_heads = config.num_heads,
                       .patch_px = config.patch_px,
                       .image_px = config.image_px,
                       .num_positions = config.grid() * config.grid() + 1};
  const std::int64_t hidden = config.hidden;
  const std::int64_t layer_norms = 4 * hidden;
  const std::int64_t layer_biases = 5 * hidden + config.intermediate;
  const std::int64_t class_and_pre_norm = 3 * hidden;
  shape.num_other_weights = class_and_pre_norm + num_layers * (layer_norms + layer_biases);
  return shape;
}

// Returns the dtype that a configuration names for its tensors; the class default is f32.
DType read_stored_dtype(const JsonObject& config) {
  const std::string name = config.get_string("dtype", config.get_string("torch_dtype", "float32"));
  if (name == "bfloat16") return DType::kBF16;
  if (name == "float16") return DType::kF16;
  return DType::kF32;
}

JsonObject require_part(const JsonObject& config, std::string_view key) {
  if (auto part = config.get_object(key)) return *part;
  throw Error(ErrorCode::kBadModel, config.name() + ": " + std::string(key) + " is missing");
}

ModelShape read_llava_next_video(const JsonObject& config) {
  ModelShape shape;
  const TextConfig text = parse_text_config(require_part(config, "text_config"));
  const ClipVisionConfig clip = parse_clip_vision_config(require_part(config, "vision_config"));
  const std::vector<std::int64_t> layers = config.get_ints("vision_feature_layer");
  VisionShape vision =
      to_vision_shape(clip, layers_to_run(clip, layers.empty() ? -2 : layers.front()));
  vision.pool_stride = config.get_int("spatial_pool_stride", 2, 1, 4096);
  vision.projector = {{text.hidden, clip.hidden}, {text.hidden, text.hidden}};
  if (config.get_bool("multimodal_projector_bias", true)) {
    vision.num_other_weights += 2 * text.hidden;
  }
  shape.text = to_text_shape(text);
  shape.vision = vision;
  return shape;
}

// Reads the matrices of a projector file in the order of their names, as composed.cpp does.
void read_projector(const std::filesystem::path& path, std::int64_t text_hidden,
                    VisionShape& vision) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    vision.projector = {{text_hidden, vision.hidden}, {text_hidden, text_hidden}};
    vision.num_other_weights += 2 * text_hidden;
    return;
  }
  const weights::Checkpoint file = weights::Checkpoint::open(path);
  for (const std::string& name : file.names()) {
    const auto tensor = file.find(name);
    if (tensor->shape().rank() == 2) {
      vision.projector.push_back({tensor->dim(0), tensor->dim(1)});
    } else {
      vision.num_other_weights += tensor->num_elements();
    }
  }
}

// Numbers of patches along both edges.
struct Grid {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

Grid grid_of(const VisionShape& shape, FrameSize frame) {
  if (shape.image_px > 0) return {shape.image_px / shape.patch_px, shape.image_px / shape.patch_px};
  // Source: smart_resize of Qwen-VL in transformers 4.57 image_processing_qwen2_vl.py: edges are
  // rounded to multiples of the merged patch, half to even, within its limits.
  const std::int64_t unit_px = shape.patch_px * shape.pool_stride;
  const auto round_to_unit = [&](std::int64_t edge_px) {
    std::int64_t units = edge_px / unit_px;
    const std::int64_t twice_rest = 2 * (edge_px % unit_px);
    if (twice_rest > unit_px || (twice_rest == unit_px && units % 2 == 1)) ++units;
    return std::max<std::int64_t>(units, 1) * shape.pool_stride;
  };
  return {round_to_unit(frame.height_px), round_to_unit(frame.width_px)};
}

}  // namespace

ModelShape read_shape(const std::filesystem::path& folder) {
  const JsonObject config = JsonObject::open(folder / "config.json", ErrorCode::kBadModel);
  const std::string model_type = config.require_string("model_type");
  ModelShape shape;
  if (model_type == "llava_next_video") {
    shape = read_llava_next_video(config);
  } else if (model_type == "llama" || model_type == "qwen3") {
    shape.text = to_text_shape(parse_text_config(config));
  } else if (model_type == "clip" || model_type == "clip_vision_model") {
    const ClipVisionConfig clip = parse_clip_vision_config(
        model_type == "clip" ? require_part(config, "vision_config") : config);
    shape.vision = to_vision_shape(clip, clip.num_layers);
  } else {
    throw Error(ErrorCode::kUnavailable,
                config.name() + ": model_type \"" + model_type +
                    "\" cannot be sized by this build; llava_next_video, llama, qwen3, clip and "
                    "clip_vision_model can");
  }
  shape.name = folder.string();
  shape.stored_dtype = read_stored_dtype(config);
  return shape;
}

ModelShape read_shape(const ComposedSource& source) {
  const ModelShape vision = read_shape(source.vision);
  const ModelShape llm = read_shape(source.llm);
  if (!vision.vision.has_value() || !llm.text.has_value()) {
    throw Error(ErrorCode::kBadModel, "a composed model needs a CLIP tower and a Llama or Qwen3; " +
                                          (vision.vision.has_value() ? llm.name : vision.name) +
                                          " is neither");
  }
  ModelShape shape = compose_shapes(*vision.vision, *llm.text, source);
  shape.stored_dtype = llm.stored_dtype;
  return shape;
}

ModelShape compose_shapes(const VisionShape& vision, const TextShape& text,
                          const ComposedSource& source) {
  ModelShape shape;
  shape.name = source.vision.string() + " + " + source.llm.string();
  shape.text = text;
  shape.vision = vision;
  VisionShape& tower = *shape.vision;
  const std::int64_t wanted = source.vision_feature_layer;
  const std::int64_t num_run = wanted < 0 ? vision.num_layers + 1 + wanted : wanted;
  if (num_run < 0 || num_run > vision.num_layers) {
    throw Error(ErrorCode::kBadModel, "vision_feature_layer " + std::to_string(wanted) +
                                          " does not exist: the vision tower has " +
                                          counted(vision.num_layers, "layer"));
  }
  const std::int64_t per_layer = 9 * tower.hidden + tower.intermediate;
  tower.num_other_weights -= (tower.num_layers - num_run) * per_layer;
  tower.num_layers = num_run;
  tower.keeps_class_token = !source.drop_cls;
  tower.pool_stride = source.pool_stride;
  tower.projector.clear();
  read_projector(source.projector, text.hidden, tower);
  return shape;
}

DecoderSpec decoder_spec(const TextShape& shape) {
  return {.num_layers = shape.num_layers,
          .hidden = shape.hidden,
          .num_heads = shape.num_heads,
          .num_kv_heads = shape.num_kv_heads,
          .head_dim = shape.head_dim,
          .vocab = shape.vocab,
          .max_positions = shape.max_positions};
}

std::vector<LinearShape> layer_matrices(const TextShape& shape) {
  const std::int64_t hidden = shape.hidden;
  return {{shape.q_dim(), hidden},     {shape.kv_dim(), hidden},     {shape.kv_dim(), hidden},
          {hidden, shape.q_dim()},     {shape.intermediate, hidden}, {shape.intermediate, hidden},
          {hidden, shape.intermediate}};
}

std::vector<LinearShape> tower_matrices(const VisionShape& shape) {
  std::vector<LinearShape> matrices = shape.projector;
  for (std::int64_t i = 0; i < shape.num_layers; ++i) {
    for (int j = 0; j < 4; ++j) matrices.push_back({.out = shape.hidden, .in = shape.hidden});
    matrices.push_back({.out = shape.intermediate, .in = shape.hidden});
    matrices.push_back({.out = shape.hidden, .in = shape.intermediate});
  }
  return matrices;
}

ParameterCounts count_parameters(const ModelShape& shape) {
  ParameterCounts counts;
  if (shape.text.has_value()) {
    const TextShape& text = *shape.text;
    counts.embedding = text.vocab * text.hidden;
    counts.lm_head = text.tied_embeddings ? 0 : counts.embedding;
    std::int64_t matrices = 0;
    for (const LinearShape& matrix : layer_matrices(text)) matrices += matrix.num_weights();
    counts.projections = text.num_layers * matrices;
    std::int64_t other = 2 * text.hidden;
    if (text.qk_norm) other += 2 * text.head_dim;
    if (text.attention_bias) other += text.q_dim() + 2 * text.kv_dim() + text.hidden;
    if (text.mlp_bias) other += 2 * text.intermediate + text.hidden;
    counts.text_other = text.num_layers * other + text.hidden;
  }
  if (shape.vision.has_value()) {
    const VisionShape& vision = *shape.vision;
    const std::int64_t hidden = vision.hidden;
    counts.tower = vision.num_layers * (4 * hidden * hidden + 2 * hidden * vision.intermediate) +
                   hidden * vision.patch_values() + hidden * vision.num_positions +
                   vision.num_other_weights;
    for (const LinearShape& layer : vision.projector) counts.projector += layer.num_weights();
  }
  return counts;
}

std::int64_t decoder_scratch_bytes(const TextShape& shape, std::int64_t max_tokens,
                                   std::int64_t max_logit_rows) {
  // For every token: hidden, q, the output of attention (whose memory a piece's norm shares) and
  // the table of the rotation. For a piece: k, v and silu(gate) * up.
  const std::int64_t piece = std::min(max_tokens, TransformerDecoder::kPieceRows);
  const std::int64_t per_token = shape.hidden + shape.q_dim() + shape.head_dim;
  const std::int64_t attended = std::max(piece * shape.hidden, max_tokens * shape.q_dim());
  const std::int64_t of_piece = piece * (2 * shape.kv_dim() + shape.intermediate);
  return kFloatBytes *
         (max_tokens * per_token + attended + of_piece + max_logit_rows * shape.hidden);
}

std::int64_t tower_tokens(const VisionShape& shape, FrameSize frame) {
  const Grid grid = grid_of(shape, frame);
  return grid.rows * grid.columns + shape.class_tokens;
}

std::int64_t tokens_per_image(const VisionShape& shape, FrameSize frame) {
  if (shape.keeps_class_token) return tower_tokens(shape, frame);
  const Grid grid = grid_of(shape, frame);
  return (grid.rows / shape.pool_stride) * (grid.columns / shape.pool_stride);
}

std::int64_t num_images(const VisionShape& shape, std::int64_t num_frames) {
  return (num_frames + shape.frames_per_image - 1) / shape.frames_per_image;
}

std::int64_t encoder_scratch_bytes(const VisionShape& shape, std::int64_t num_frames,
                                   FrameSize frame) {
  const std::int64_t images = num_images(shape, std::min(num_frames, kFramesPerPass));
  const std::int64_t tokens = tower_tokens(shape, frame);
  const std::int64_t patches = tokens - shape.class_tokens;
  const std::int64_t pooled = tokens_per_image(shape, frame);
  // Five arrays of the tower's width: hidden, its norm (later the output of attention), q, k and v.
  std::int64_t per_image = tokens * 5 * shape.hidden;
  // Patch columns, then the inner activations of an MLP for a limited number of rows.
  const std::int64_t wide =
      std::max(images * patches * shape.patch_values(),
               std::min(images * tokens, ClipVisionTower::kMlpRows) * shape.intermediate);
  if (!shape.keeps_class_token) per_image += pooled * shape.hidden;
  // The last layer of the projector writes the result directly.
  for (std::size_t i = 0; i + 1 < shape.projector.size(); ++i) {
    per_image += pooled * shape.projector[i].out;
  }
  return kFloatBytes * (images * per_image + wide);
}

double encoder_flops(const VisionShape& shape, std::int64_t num_frames, FrameSize frame) {
  const auto tokens = static_cast<double>(tower_tokens(shape, frame));
  const auto pooled = static_cast<double>(tokens_per_image(shape, frame));
  const auto hidden = static_cast<double>(shape.hidden);
  const double layer_weights =
      4 * hidden * hidden + 2 * hidden * static_cast<double>(shape.intermediate);
  const double attention = 4 * tokens * tokens * hidden;
  double flops = static_cast<double>(shape.num_layers) * (2 * tokens * layer_weights + attention) +
                 2 * tokens * hidden * static_cast<double>(shape.patch_values());
  for (const LinearShape& layer : shape.projector) {
    flops += 2 * pooled * static_cast<double>(layer.num_weights());
  }
  return flops * static_cast<double>(num_images(shape, num_frames));
}

}  // namespace caption::model
