// weights/internal/compressed_tensors_config.h: what a quantization_config of compressed-tensors
// says about the weights of a checkpoint.
// Source: compressed-tensors 0.12 and 0.20 (quantization/quant_args.py, quant_scheme.py,
// quant_config.py).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "weights/internal/scale_grid.h"

namespace caption::weights {

enum class CompressedFormat { kPackedInts, kInts, kFloats };

// One of config_groups. `targets` and `ignore` choose modules, which the tensors of the file show.
struct CompressionScheme {
  CompressedFormat format = CompressedFormat::kInts;
  std::int64_t num_bits = 8;  // bits of a packed code: 4 or 8
  bool is_symmetric = true;   // whether there are no zero points
  bool has_order = false;     // actorder "group": weight_g_idx names each column's group
  // Rows and columns that share a scale; 0: all.
  ScaleBlock block;
  // Whether input_activations are integers of 8 bits with a symmetric scale for each token.
  bool rounds_activations = false;

  friend bool operator==(const CompressionScheme&, const CompressionScheme&) = default;
};

// Returns the different schemes of the groups that have weights, at least one and at most 32.
// Throws Error(kBadModel) for an impossible value; kUnavailable naming key and value for what this
// build does not read: other formats and numbers of bits, sparse weights, rotations, schemes for
// the KV cache and for outputs.
std::vector<CompressionScheme> read_compression_schemes(const JsonObject& config);

}  // namespace caption::weights
