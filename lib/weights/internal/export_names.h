// weights/internal/export_names.h: which tensors of a checkpoint become which tensors of GGUF
// files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tensor/shape.h"
#include "weights/gguf_writer.h"
#include "weights/internal/export_config.h"
#include "weights/internal/export_tower.h"
#include "weights/internal/gguf_renames.h"
#include "weights/source.h"

namespace caption::weights {

// A tensor of a file, and what it is made of.
struct ExportedTensor {
  GgufTensorHeader header;
  std::string source;  // name in the checkpoint; empty for `values`
  Shape shape;         // shape of that tensor
  // kOne; kRotatedRows: row 2i + half of a head is its row half * head_dim / 2 + i; kRows: one of
  // `num_pieces` equal parts of its rows; kFrames: one frame of a kernel.
  GgufAssembly part = GgufAssembly::kOne;
  std::size_t piece = 0;
  std::size_t num_pieces = 1;
  std::int64_t num_heads = 0;  // kRotatedRows
  std::vector<float> values;   // rope_freqs.weight
};

struct ExportedTensors {
  std::vector<ExportedTensor> text;
  std::vector<ExportedTensor> tower;
};

// Assigns the tensors of a source, all as F32. Layers of a tower above those that its projector
// needs are left out, and the buffers, heads and newlines that no model reads. `tower` is null for
// a language model. Throws Error(kBadModel) naming a tensor that is missing, or whose rows cannot
// be cut or rotated; kUnavailable naming one that has no place in these files.
ExportedTensors assign_tensors(const Source& source, const ExportedModel& model,
                               const ExportedTower* tower);

}  // namespace caption::weights
