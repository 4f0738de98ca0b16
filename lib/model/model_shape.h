// model/model_shape.h: the sizes of a model without opening its weights: from its config.json, or
// by the name of a well-known model when there are no files at all.
//
// Counts and bytes agree with those of open_model() and Decoder::scratch_bytes() for the same model
// (tests/bench/plan_test.cpp). known_shapes.cpp names the source of the known shapes.
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

// A decoder of the Llama or Qwen3 architecture.
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
  bool qk_norm = false;            // a norm of every head of q and k, as in Qwen3
  bool attention_bias = false;
  bool mlp_bias = false;

  std::int64_t q_dim() const { return num_heads * head_dim; }
  std::int64_t kv_dim() const { return num_kv_heads * head_dim; }
};

// A vision tower and its projector. An "image" is the tower's unit of input: a frame, or two
// consecutive frames.
struct VisionShape {
  std::int64_t num_layers = 0;  // layers that run; the others are not loaded
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  std::int64_t num_heads = 0;
  std::int64_t patch_px = 0;
  std::int64_t image_px = 0;  // edge of the square input; 0: frames keep their size
  std::int64_t frames_per_image = 1;
  std::int64_t class_tokens = 1;            // class tokens of the tower per image; may be 0
  bool keeps_class_token = false;           // excludes pooling
  std::int64_t pool_stride = 1;             // patches along an edge that become one vision token
  std::int64_t num_positions = 0;           // rows of the learned position table
  std::int64_t num_other_weights = 0;       // norms, biases, class token, scales: all but matrices
  std::vector<LinearShape> projector = {};  // layers applied to each vision token
  std::int64_t text_tokens_per_image = 0;   // tokens that the prompt puts around each image

  std::int64_t patch_values() const { return 3 * frames_per_image * patch_px * patch_px; }
};

struct ModelShape {
  std::string name;
  std::optional<TextShape> text;
  std::optional<VisionShape> vision;
  DType stored_dtype = DType::kF32;  // dtype of the checkpoint according to its configuration
};

// Size of the video's frames; relevant only for towers with image_px = 0.
struct FrameSize {
  std::int64_t width_px = 1280;
  std::int64_t height_px = 720;
};

// Numbers of weights by part; a tied LM head counts once, in `embedding`.
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

// Reads only config.json, of a llava_next_video, llama, qwen3 or clip folder. Throws
// Error(kBadModel) for an invalid one; kUnavailable for another model_type.
ModelShape read_shape(const std::filesystem::path& folder);
// Like the above for a composed model; of the projector it reads the header of the file.
ModelShape read_shape(const ComposedSource& source);
// Composes known parts; a projector whose file does not exist is assumed to be linear-gelu-linear.
// Throws Error(kBadModel) when the tower has no such layer.
ModelShape compose_shapes(const VisionShape& vision, const TextShape& text,
                          const ComposedSource& source);

// Looks up a short name ("qwen3-0.6b") or the name on the hub ("Qwen/Qwen3-0.6B"), ignoring case.
std::optional<ModelShape> find_known_shape(std::string_view name);
std::vector<std::string> known_shape_names();  // short names in the order of the table

DecoderSpec decoder_spec(const TextShape& shape);
// The matrices q, k, v, o, gate, up, down of one layer.
std::vector<LinearShape> layer_matrices(const TextShape& shape);
// The linear layers of tower and projector.
std::vector<LinearShape> tower_matrices(const VisionShape& shape);
ParameterCounts count_parameters(const ModelShape& shape);
// The value of Decoder::scratch_bytes() after reserve(max_tokens, max_logit_rows).
std::int64_t decoder_scratch_bytes(const TextShape& shape, std::int64_t max_tokens,
                                   std::int64_t max_logit_rows);

// Tokens of one image inside the tower, including its class token.
std::int64_t tower_tokens(const VisionShape& shape, FrameSize frame);
// Vision tokens of one image that the decoder gets.
std::int64_t tokens_per_image(const VisionShape& shape, FrameSize frame);
std::int64_t num_images(const VisionShape& shape, std::int64_t num_frames);
// Bytes of the activations of tower and projector for a clip, f32.
std::int64_t encoder_scratch_bytes(const VisionShape& shape, std::int64_t num_frames,
                                   FrameSize frame);
// Multiplications plus additions of tower and projector for a clip.
double encoder_flops(const VisionShape& shape, std::int64_t num_frames, FrameSize frame);

}  // namespace caption::model
