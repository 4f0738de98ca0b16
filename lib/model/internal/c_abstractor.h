// model/internal/c_abstractor.h: a C-Abstractor without its last layers, which are those of
// VisionSpec::projector.
//   x  = norm(rows) + positions                              both may be absent
//   x  = blocks after (adaptive_mean_2d (blocks before (x)))
// A block (stride 1, dilation 1) with the norms over the channels:
//   h  = silu(norm_1(conv_1(x)));  h = silu(norm_2(depthwise(h)))
//   h  = h * sigmoid(excite(silu(squeeze(mean over the grid of h))))
//   x  = silu(norm_3(conv_3(h)) + shortcut(x))               shortcut: x, or norm(conv(x))
// Shapes of one frame: rows [E * E, tower's columns], x [E * E, C] before adaptive_mean_2d and [e *
// e, C] after it, row by row of the grid, with the channels C of the blocks; h [E * E or e * e,
// inner channels]; E patches and e tokens along an edge. conv_1, conv_3 and the shortcut have
// kernels of 1x1, so they are dense layers of the patches. Sources: arXiv:2312.06742;
// honeybee/projectors/projectors.py (CAbstractor) with timm's RegStage, Bottleneck, SEModule and
// LayerNorm2d (eps 1e-6).
#pragma once

#include <vector>

#include "model/internal/frame_resampler.h"
#include "model/internal/scratch.h"

namespace caption::model {

class CAbstractor final : public FrameResampler {
 public:
  CAbstractor(const PlacedWeights& weights, const Blueprint& blueprint);
  View forward(Stream& stream, ConstView rows, std::int64_t frames) override;
  std::int64_t scratch_bytes() const override;

 private:
  struct Block {
    LinearWeights conv_1;
    NormWeights norm_1;
    ConstView depthwise;  // [inner, 1, kernel, kernel]
    NormWeights norm_2;
    LinearWeights squeeze, excite;
    LinearWeights conv_3;
    NormWeights norm_3;
    std::optional<LinearWeights> shortcut;
    NormWeights shortcut_norm;
  };
  // Rows of square grids.
  struct Grids {
    std::int64_t frames = 0;
    std::int64_t edge = 0;
    std::int64_t rows() const { return frames * edge * edge; }
  };

  static Block make_block(const PlacedWeights& weights, const RegBlockIds& ids);
  ConstView prepare(Stream& stream, ConstView rows, std::int64_t frames);
  void run_block(Stream& stream, const Block& block, const Grids& grids, ConstView x, View y);
  ConstView run_stage(Stream& stream, const std::vector<Block>& blocks, const Grids& grids,
                      ConstView x);

  CAbstractorSpec spec_;
  std::int64_t edge_;  // edge of the grid of patches, in patches
  NormWeights norm_;
  ConstView positions_;  // [edge * edge, columns], empty: none
  std::vector<Block> before_, after_;
  Scratch prepared_, inner_, mixed_, means_, squeezed_, gates_, shortcut_;
  Scratch outputs_[2];  // outputs of the blocks, which take turns
  std::size_t turn_ = 0;
  Scratch pooled_;
};

}  // namespace caption::model
