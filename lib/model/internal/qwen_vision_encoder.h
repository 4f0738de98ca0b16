// model/internal/qwen_vision_encoder.h: the vision towers of Qwen2.5-VL and Qwen3-VL, which take
// frames of any size.
//   x_0     = patches * W + b + P(grid)          P: a table of positions, interpolated
//   x'_l    = x_l + proj(attention(rope(q), rope(k), v))        [q, k, v] = qkv(norm_1(x_l))
//   x_{l+1} = x'_l + fc2(gelu_tanh(fc1(norm_2(x'_l))))
//   token   = fc2(gelu(fc1(join(norm(x_L)))))    join: the patches of one token, side by side
//   row k   = fc2(gelu(fc1(norm(join(x_{d_k + 1})))))                           DeepStack
// Frames are taken in pairs; attention sees the patches of one pair. The rotation follows a patch's
// row with the first half of the frequencies and its column with the other. Qwen3-VL's norms are
// LayerNorms. In Qwen2.5-VL they are RMSNorms, there is neither b nor P nor DeepStack, the MLP is
// fc2(silu(gate(.)) * fc1(.)), and most layers attend inside windows only; the rows of x then are
// in the order of these windows (attention_windows.h), and the tokens in that of the grid again.
// Sources: transformers 4.57.6 modeling_qwen2_5_vl.py (Qwen2_5_VisionTransformerPretrainedModel),
// modeling_qwen3_vl.py (Qwen3VLVisionModel); arXiv:2502.13923, arXiv:2511.21631.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/stream.h"
#include "kernels/attention.h"
#include "kernels/grid_patches.h"
#include "model/internal/attention_windows.h"
#include "model/internal/placed_weights.h"
#include "model/internal/scratch.h"
#include "model/internal/vision_encoder.h"

namespace caption::model {

class QwenVisionEncoder final : public VisionEncoder {
 public:
  // Runs the tower of `blueprint`; borrows `weights`, which were placed for that blueprint.
  QwenVisionEncoder(const PlacedWeights& weights, const Blueprint& blueprint);

  const VisionSpec& spec() const override { return spec_; }
  std::int64_t image_tokens(const ClipShape& clip) const override;
  std::int64_t scratch_bytes() const override;

 private:
  struct Block {
    NormWeights norm_1;
    LinearWeights qkv, proj;
    NormWeights norm_2;
    LinearWeights fc1, fc2;
    std::optional<LinearWeights> gate;
    bool attends_in_windows = false;
  };
  struct Merger {
    NormWeights norm;
    LinearWeights fc1, fc2;
  };
  // What images of one size have in common.
  struct Image {
    kernels::PatchGrid grid;
    Tensor rope_table;                  // [patches, head_dim], the rotation of the rows of x
    std::vector<EqualWindows> windows;  // windows of vision tokens; empty without windows
    // [tokens of a pass] i32: the place in the grid's order of each token in the windows' order,
    // and the reverse, image by image. Empty without windows.
    Tensor from_grid, to_grid;
  };
  // An ImageRun, and its rows of x.
  struct Rows {
    const Image* image = nullptr;
    const ImageRun* run = nullptr;
    std::int64_t first = 0;
    std::int64_t count = 0;

    View of(View x) const { return x.rows(first, count); }
  };

  Merger merger(const PlacedWeights& weights, const QwenMergerIds& ids) const;
  std::int64_t token_width() const override { return out_ * (1 + std::ssize(deepstack_)); }
  void prepare(Stream& stream, std::span<const ConstView> clips) override;
  void encode_pass(Stream& stream, std::span<const ImageRun> runs) override;
  Image make_image(Stream& stream, const kernels::PatchGrid& grid, std::int64_t max_images) const;
  const Image& image_of(ConstView pixels) const;
  ConstView upload(Stream& stream, ConstView pixels);
  View embed(Stream& stream, std::span<const Rows> parts);
  // Puts the vision tokens of x in the order of the windows (to_windows) or of the grid.
  void reorder(Stream& stream, std::span<const Rows> parts, View x, bool to_windows, View y) const;
  void norm(Stream& stream, ConstView x, const NormWeights& weights, View y) const;
  void attend(Stream& stream, const Block& block, std::span<const Rows> parts, View x);
  void attend_in_windows(Stream& stream, const kernels::AttentionInput& input,
                         std::span<const EqualWindows> all, View y) const;
  void mlp(Stream& stream, const Block& block, View x);
  // Writes one token for every merged_patches() rows of x to the columns `level` of the tokens: 0
  // for the embedding, k for the DeepStack row k.
  void merge(Stream& stream, const Merger& merger, ConstView x, std::span<const Rows> parts,
             std::int64_t level);

  VisionSpec spec_;
  std::int64_t out_;  // numbers of one embedding
  LinearWeights patch_embedding_;
  ConstView positions_;  // empty: no table
  std::vector<Block> blocks_;
  Merger merger_;
  std::vector<Merger> deepstack_;
  Tensor inv_freq_;   // [head_dim / 2] f32
  Tensor rope_axis_;  // [head_dim / 2] i32

  std::vector<Image> images_;  // one for each size among the clips of encode_clips()
  Scratch pixels_;             // a run's pixels, where the device is not the host
  Scratch hidden_, normed_, qkv_;
  Scratch rounded_k_, rounded_v_;  // bf16 or f16
  Scratch wide_;                   // patch columns, then inner activations
};

}  // namespace caption::model
