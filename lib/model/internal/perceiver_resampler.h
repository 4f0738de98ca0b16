// model/internal/perceiver_resampler.h: a Perceiver resampler.
//   c        = input(rows)                                        the context; PerceiverVariant
//   l_0      = latents
//   j_i      = [norm_context(c); norm_latents(l_i)]               along the rows of a frame
//   l'_i     = l_i + out(attention(q(norm_latents(l_i)), k(j_i), v(j_i)))
//   l_{i+1}  = l'_i + mlp(norm_mlp(l'_i))
//   y        = norm(l_n)
// where of a frame rows is [R, tower's columns], c [R, D], l_i, l'_i and y [L, D], j_i [R + L, D].
//
// Sources: arXiv:2204.14198; open_flamingo src/helpers.py (PerceiverResampler, without embeddings
// of frames and media); transformers 4.57 modeling_idefics2.py (Idefics2Connector).
#pragma once

#include <vector>

#include "model/internal/frame_resampler.h"
#include "model/internal/scratch.h"

namespace caption::model {

class PerceiverResampler final : public FrameResampler {
 public:
  PerceiverResampler(const PlacedWeights& weights, const Blueprint& blueprint);
  View forward(Stream& stream, ConstView rows, std::int64_t frames) override;
  std::int64_t scratch_bytes() const override;

 private:
  struct Layer {
    NormWeights norm_context, norm_latents;
    LinearWeights q;
    std::vector<LinearWeights> kv;  // one layer for both, or one for each
    LinearWeights out;
    NormWeights norm_mlp;
    LinearWeights fc1, fc2;
    std::optional<LinearWeights> gate;
  };

  ConstView input(Stream& stream, ConstView rows);
  void normalise(Stream& stream, ConstView x, const NormWeights& norm, View y) const;
  void attend(Stream& stream, const Layer& layer, ConstView context, std::int64_t frames, View x);
  void mlp(Stream& stream, const Layer& layer, View x);

  PerceiverSpec spec_;
  Activation activation_;
  std::vector<LinearWeights> input_;  // none, one layer, or gate, up and down
  ConstView latents_;                 // [latents, hidden]
  std::vector<Layer> layers_;
  NormWeights norm_;
  Scratch context_, wide_, hidden_, normed_, joined_, q_, kv_;
};

}  // namespace caption::model
