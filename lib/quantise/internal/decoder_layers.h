// quantise/internal/decoder_layers.h: the layers of a decoder in a checkpoint, one at a time as
// f32.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "base/on_work.h"
#include "model/blueprint.h"
#include "model/decoder_layer.h"
#include "tensor/tensor.h"
#include "weights/checkpoint.h"

namespace caption::quantise {

enum MatrixIndex : std::size_t { kQ, kK, kV, kO, kGate, kUp, kDown, kNumMatrices };

// The names of a layer's tensors in the file; empty for what the layer has not.
struct LayerNames {
  std::string input_norm, q_norm, k_norm, post_attention_norm;
  std::array<std::string, kNumMatrices> matrices, biases;

  std::vector<std::string> all() const;  // those that are not empty
};

// The layers by index. Throws Error(kUnavailable) naming a tensor that several parameters share,
// because a change for one would change the others.
std::vector<LayerNames> name_layers(const model::Blueprint& blueprint,
                                    const weights::Checkpoint& source);

// The parameters of one layer, f32.
struct LayerWeights {
  Tensor input_norm, q_norm, k_norm, post_attention_norm;  // the norms of heads may be empty
  std::array<Tensor, kNumMatrices> matrices;               // [out, in]
  std::array<Tensor, kNumMatrices> biases;                 // [out] or empty

  model::DecoderLayerViews views() const;
};

// Reports 0 after each matrix. Throws Error(kBadModel) for a tensor that is missing, no
// floating-point numbers, or not finite.
LayerWeights read_layer(const weights::Checkpoint& source, const LayerNames& names,
                        const OnWork& on_work = {});

// Returns a dense view as f32. Throws Error(kBadModel) when a number is not finite.
Tensor to_f32(ConstView view);

}  // namespace caption::quantise
