// kernels/cuda/parts.cuh: the parts of a dense layer that one launch computes.
#pragma once

#include <cstdint>

#include "kernels/cuda/dense_layer.h"
#include "kernels/cuda/epilogue.cuh"
#include "kernels/cuda/primitives.cuh"

namespace caption::kernels::cuda {

// A part, whose blocks are consecutive. Operand is what a kernel reads of a weight.
template <class Operand>
struct Part {
  Operand weight;
  Output output;
  int first_block;
};

// The parts of a layer. With SwiGLU only the first has blocks, each of which computes both.
template <class Operand>
struct Parts {
  Part<Operand> part[kMostParts];
  int count;
  int blocks;

  // The index of the part that a block computes.
  CAPTION_DEVICE int part_of(int block) const {
    int i = 0;
    while (i + 1 < count && block >= part[i + 1].first_block) ++i;
    return i;
  }
};

// Gives each part a block per `features_per_block`.
template <class Operand>
void divide_parts(Parts<Operand>& parts, std::int64_t features_per_block) {
  parts.blocks = 0;
  for (int i = 0; i < parts.count; ++i) {
    parts.part[i].first_block = parts.blocks;
    const std::int64_t features = parts.part[i].output.features;
    parts.blocks += static_cast<int>((features + features_per_block - 1) / features_per_block);
  }
}

// A part has a block per `features_per_block`; operand_of(Weight) returns its Operand.
template <class OperandOf>
auto parts_of(const DenseLayer& layer, std::int64_t features_per_block, OperandOf operand_of) {
  Parts<decltype(operand_of(layer.parts.front().weight))> parts{};
  for (const LinearPart& part : layer.parts) {
    parts.part[parts.count++] = {.weight = operand_of(part.weight),
                                 .output = output_of(part, layer.output),
                                 .first_block = 0};
  }
  // SwiGLU's blocks are all of the first part.
  if (layer.is_swiglu) parts.count = 1;
  divide_parts(parts, features_per_block);
  return parts;
}

}  // namespace caption::kernels::cuda
