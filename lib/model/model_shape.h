// model/model_shape.h: how large a model is, without opening a weight: from its config.json, or by
// the name of a well-known model when there are no files at all.
//
// Counts and bytes agree with what open_model() and Decoder::scratch_bytes() say of the same model
// (tests/bench/plan_test.cpp). Source of the known shapes: models.md §1.1, §3, §4.1; field.md §4.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/caption_model.h"
#include "model/decoder.h"
#include "tensor/dtype.h"

namespace caption::model {

// A dense layer, weight [out, in].
struct LinearShape {
  std::int64_t out = 0;
  std::int64_t in = 0;

  std::int64_t num_weights() const { return out * in; }
};

// A decoder of the Llama and Qwen3 kind.
struct TextShape {
  std::int64_t num_layers = 0;
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t vocab = 0;
  std::int64_t max_positions = 0;  // scaling of positions included
  bool tied_embeddings = false;    // the LM head is the embedding
  bool qk_norm = false;            // a norm of every head of q and k, as Qwen3 has
  bool attention_bias = false;
  bool mlp_bias = false;

  std::int64_t q_dim() const { return num_heads * head_dim; }
  std::int64_t kv_dim() const { return num_kv_heads * head_dim; }
};

// A vision tower and its projector. An "image" is what the tower takes at a time: a frame, or two
// consecutive ones.
struct VisionShape {
  std::int64_t num_layers = 0;  // that run; the others are not loaded
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  std::int64_t num_heads = 0;
  std::int64_t patch_px = 0;
  std::int64_t image_px = 0;  // edge of the square that frames become; 0: their own size
  std::int64_t frames_per_image = 1;
  std::int64_t class_tokens = 1;       // of the tower; 0: none
  bool keeps_class_token = false;      // then there is no pooling
  std::int64_t pool_stride = 1;        // patches along an edge that become one vision token
  std::int64_t num_positions = 0;      // rows of the learned position table
  std::int64_t num_other_weights = 0;  // norms, biases, class token, scales: all that is no matrix
  std::vector<LinearShape> projector = {};  // as run over each vision token
  std::int64_t text_tokens_per_image = 0;   // that the prompt puts around each image

  std::int64_t patch_values() const { return 3 * frames_per_image * patch_px * patch_px; }
};

struct ModelShape {
  std::string name;
  std::optional<TextShape> text;
  std::optional<VisionShape> vision;
  DType stored_dtype = DType::kF32;  // of the checkpoint, as its configuration says
};

// Frames as the videos have them; matters to towers with image_px = 0 only.
struct FrameSize {
  std::int64_t width_px = 1280;
  std::int64_t height_px = 720;
};

// Numbers of weights by part; a tied LM head counts once, as embedding.
struct ParameterCounts {
  std::int64_t embedding = 0;
  std::int64_t lm_head = 0;
  std::int64_t projections = 0;  // the seven matrices of every decoder layer
  std::int64_t text_other = 0;   // norms and biases
  std::int64_t tower = 0;
  std::int64_t projector = 0;

  std::int64_t total() const {
    return embedding + lm_head + projections + text_other + tower + projector;
  }
};

// Reads config.json of a llava_next_video, llama, qwen3 or clip folder, and nothing else.
// Throws Error(kBadModel) for a broken one; kUnavailable for another model_type.
ModelShape read_shape(const std::filesystem::path& folder);
// The same for a composed model; of the projector the header of the file.
ModelShape read_shape(const ComposedSource& source);
// A composed model of parts that are known; a projector whose file is not there is taken to be
// linear-gelu-linear. Throws Error(kBadModel) when the tower has no such layer.
ModelShape compose_shapes(const VisionShape& vision, const TextShape& text,
                          const ComposedSource& source);

// By short name ("qwen3-0.6b") or by the hub's ("Qwen/Qwen3-0.6B"), whatever the case.
std::optional<ModelShape> find_known_shape(std::string_view name);
std::vector<std::string> known_shape_names();  // short ones, in the order of the table

DecoderSpec decoder_spec(const TextShape& shape);
// q, k, v, o, gate, up, down.
std::vector<LinearShape> layer_matrices(const TextShape& shape);
// The linear layers of tower and projector.
std::vector<LinearShape> tower_matrices(const VisionShape& shape);
ParameterCounts count_parameters(const ModelShape& shape);
// What Decoder::scratch_bytes() says after reserve(max_tokens, max_logit_rows).
std::int64_t decoder_scratch_bytes(const TextShape& shape, std::int64_t max_tokens,
                                   std::int64_t max_logit_rows);

// Tokens of one image inside the tower, its class token included.
std::int64_t tower_tokens(const VisionShape& shape, FrameSize frame);
// What is left of them for the decoder.
std::int64_t tokens_per_image(const VisionShape& shape, FrameSize frame);
std::int64_t num_images(const VisionShape& shape, std::int64_t num_frames);
// Activations of the tower and projector for a clip, f32.
std::int64_t encoder_scratch_bytes(const VisionShape& shape, std::int64_t num_frames,
                                   FrameSize frame);
// Multiplications and additions of tower and projector for a clip.
double encoder_flops(const VisionShape& shape, std::int64_t num_frames, FrameSize frame);

}  // namespace caption::model
