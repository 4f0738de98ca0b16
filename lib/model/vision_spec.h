// model/vision_spec.h: the dimensions of a vision tower and its projector, and the numbers of
// tokens, bytes and operations that follow from them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "backend/context.h"
#include "backend/device.h"
#include "model/clip_shape.h"
#include "vision/preprocess.h"
#include "weights/format.h"

namespace caption::model {

// Activation of the tower's MLP or of the projector.
enum class Activation { kGelu, kGeluTanh, kQuickGelu, kRelu, kSilu };

enum class Norm { kLayer, kRms };

// How the pool_stride x pool_stride patches of a window become one row of the projector's input:
// their mean or maximum, a convolution with a stride equal to its kernel size, or their
// concatenation (pixel shuffle, kernels/merge_patches.h).
enum class PatchMerge { kMean, kMax, kConvolution, kShuffle };

// How the rows that a tower gives become vision tokens (model/internal/projector.h).
enum class ProjectorKind { kMlp, kPerceiverResampler, kCAbstractor };

// What differs between vision transformers of fixed-size frames; the defaults are CLIP's.
struct VitSpec {
  bool patch_bias = false;
  bool pre_norm = true;  // a norm of the embeddings, before the first layer
  Norm norm = Norm::kLayer;
  bool attention_bias = true;  // whether the q, k and v projections have a bias
  bool qk_norm = false;        // RMS norms of q and k over all heads together, eps 1e-6
  bool layer_scale = false;    // both branches of a layer are multiplied by a vector
};

// What differs between the towers of Qwen-VL, which take frames of any size; the defaults are
// Qwen3-VL's.
struct QwenVitSpec {
  Norm norm = Norm::kLayer;
  bool gated_mlp = false;  // SwiGLU (arXiv:2002.05202) instead of two layers
  // Edge, in vision tokens, of the windows inside which attention sees patches; 0: attention sees
  // the whole image.
  std::int64_t window = 0;
};

// A dense layer, weight [out, in].
struct LinearSpec {
  std::int64_t out = 0;
  std::int64_t in = 0;
  bool has_bias = true;

  std::int64_t num_weights() const { return out * in; }
};

// The variants of a Perceiver resampler, named after the project whose tensor names they use.
enum class PerceiverVariant {
  kFlamingo,  // layer norms; MLPs of two layers
  kIdefics2,  // RMS norms; gated MLPs, one of them before the first layer
};

// A Perceiver resampler: latents that attend to the rows of a frame and to each other.
struct PerceiverSpec {
  PerceiverVariant variant = PerceiverVariant::kFlamingo;
  std::int64_t latents = 0;
  std::int64_t hidden = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::optional<LinearSpec> input = {};  // kFlamingo: a layer before all others
  std::int64_t input_intermediate = 0;   // kIdefics2: width of the MLP before the first layer
  // Width of the MLP of each layer; as many as there are layers.
  std::vector<std::int64_t> intermediates = {};

  std::int64_t q_dim() const { return num_heads * head_dim; }
  std::int64_t kv_dim() const { return num_kv_heads * head_dim; }
};

// A bottleneck block of RegNet-Y (arXiv:2003.13678) with depthwise convolutions, layer norms over
// the channels and squeeze-and-excitation.
struct RegBlockSpec {
  std::int64_t in = 0;
  std::int64_t inner = 0;    // channels of the depthwise convolution
  std::int64_t squeeze = 0;  // width of squeeze-and-excitation
  std::int64_t out = 0;
  std::int64_t kernel = 3;    // edge of the depthwise convolution
  bool has_shortcut = false;  // the input reaches the sum through a layer and a norm

  std::int64_t num_weights() const {
    return in * inner + inner * kernel * kernel + 2 * inner * squeeze + inner * out +
           (has_shortcut ? in * out : 0);
  }
};

// A C-Abstractor: blocks on the grid of patches, average pooling to tokens, blocks on those.
struct CAbstractorSpec {
  std::int64_t edge = 0;           // edge of the square of tokens, in tokens
  bool has_norm = false;           // a layer norm before all, eps 1e-6
  std::int64_t position_rows = 0;  // rows of the table that is added to the patches; 0: none
  std::vector<RegBlockSpec> before = {};
  std::vector<RegBlockSpec> after = {};

  std::int64_t tokens() const { return edge * edge; }
};

// A vision tower and its projector. An "image" is the tower's unit of input: a frame, or two
// consecutive frames.
struct VisionSpec {
  std::int64_t num_layers = 0;     // layers that run; the others are not loaded
  std::int64_t unused_layers = 0;  // layers of the file after those that run
  // The hidden states that are concatenated for the projector; hidden_states[num_layers] is the
  // output of the last layer that runs. Empty: that one alone.
  std::vector<std::int64_t> feature_layers = {};
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  std::int64_t num_heads = 0;
  std::int64_t patch_px = 0;
  std::int64_t image_px = 0;  // edge of the square input; 0: frames keep their size
  std::int64_t frames_per_image = 1;
  // The sizes that frames are resized to, for towers with image_px = 0.
  std::optional<vision::SmartResize> resize = {};
  VitSpec vit = {};                // for towers with image_px > 0
  QwenVitSpec qwen = {};           // for towers with image_px = 0
  std::int64_t class_tokens = 1;   // class tokens of the tower per image; may be 0
  bool keeps_class_token = false;  // excludes pooling and resizing
  std::int64_t pool_stride = 1;    // patches along an edge that become one row of the projector
  PatchMerge merge = PatchMerge::kMean;
  std::int64_t num_positions = 0;  // rows of the learned position table; 0: no table
  // Layers whose output the decoder gets besides the last one's (DeepStack), ascending.
  std::vector<std::int64_t> deepstack_layers = {};
  // Layers that attend to the whole image in spite of qwen.window, ascending.
  std::vector<std::int64_t> full_attention_layers = {};
  Activation activation = Activation::kQuickGelu;
  float layer_norm_eps = 1e-5F;
  bool projector_norm = false;             // a LayerNorm before the projector, eps 1e-5
  std::vector<LinearSpec> projector = {};  // layers applied to each row, with activations between
  Activation projector_activation = Activation::kGelu;
  // What makes other rows of a frame's rows before the layers of `projector`, which may then be
  // none; at most one of them.
  std::optional<PerceiverSpec> perceiver = {};
  std::optional<CAbstractorSpec> c_abstractor = {};
  std::int64_t resize_stride = 1;  // rows along an edge after the projector, per vision token
  bool ends_with_newline = false;  // one learned vision token follows those of a clip's frames
  std::int64_t text_tokens_per_image = 0;  // tokens that the prompt puts around each image

  std::int64_t patch_values() const { return 3 * frames_per_image * patch_px * patch_px; }
  std::int64_t grid() const { return image_px / patch_px; }  // patches along an edge
  std::int64_t head_dim() const { return hidden / num_heads; }
  // Patches of one vision token of a tower with image_px = 0.
  std::int64_t merged_patches() const { return pool_stride * pool_stride; }
  // Columns of the tower's output.
  std::int64_t feature_columns() const {
    return hidden * std::max<std::int64_t>(1, std::ssize(feature_layers));
  }
  // Columns of the rows that the projector takes.
  std::int64_t merged_columns() const {
    return merge == PatchMerge::kShuffle ? feature_columns() * pool_stride * pool_stride
                                         : feature_columns();
  }
  // Columns of the vision tokens.
  std::int64_t token_columns() const {
    return projector.empty() ? perceiver.value().hidden : projector.back().out;
  }
};

// A pass over the tower takes images of one or of several clips (model/internal/vision_encoder.h):
// as many as hold at most kPassBytes of pixels, activations and rounded keys and values, at least
// one. That is enough rows for every core in a matrix product; more of them gain nothing, and with
// small images activations then leave the caches: on two cores the tower of the demonstration model
// (65 rows an image) takes 0.90 ms a frame with one frame per pass, 0.69 with 8 or 16, 0.80 with
// 32; CLIP ViT-L/14-336 (577 rows) takes 521 ms with one, 473 with 8, 483 with 16; Qwen3-VL's (64
// rows, 6 layers) 8.9 ms with 8 frames, 6.8 with 64, 6.9 with 128.
inline constexpr std::int64_t kPassBytes = std::int64_t{128} << 20;
// Limits for small images: rows of a tower that takes frames of any size, frames of another tower.
inline constexpr std::int64_t kMaxPassRows = 4608;
inline constexpr std::int64_t kMaxPassFrames = 8;

// Rows that an MLP of a tower processes at a time, to bound its inner activations, which are four
// times as wide as the others. On a CPU 12 row blocks of the matrix product (96 rows): enough work
// for all cores, and the weights are read seldom. On a GPU 33 blocks of 192 rows, with which the
// two products of CLIP ViT-L fill the 132 multiprocessors of an H100
// (kernels/cuda/warpgroup_gemm.cu).
constexpr std::int64_t tower_piece_rows(Device device) { return device.is_cuda() ? 6336 : 1152; }

// Rows of a pass, unless one image has more.
std::int64_t pass_rows(const VisionSpec& spec);
// Images of `rows` rows each that a pass takes, at least one.
std::int64_t images_per_pass(const VisionSpec& spec, std::int64_t rows);

// Tokens of one image inside the tower, including its class token.
std::int64_t tower_tokens(const VisionSpec& spec, const ClipShape& clip);
// Vision tokens of one image that the decoder gets.
std::int64_t tokens_per_image(const VisionSpec& spec, const ClipShape& clip);
std::int64_t num_images(const VisionSpec& spec, std::int64_t num_frames);
// Vision tokens of a clip that the decoder gets.
std::int64_t num_vision_tokens(const VisionSpec& spec, const ClipShape& clip);
// Bytes of the activations of tower and projector for full passes of the images of clips like
// `clip`, f32. If the layers round their input, they include a second copy of keys and values,
// rounded to bf16.
std::int64_t encoder_scratch_bytes(const Context& context, const VisionSpec& spec,
                                   const ClipShape& clip, weights::WeightFormat format);
// Floating-point operations (two per multiply-add) of tower and projector for a clip.
double encoder_flops(const VisionSpec& spec, const ClipShape& clip);

}  // namespace caption::model
