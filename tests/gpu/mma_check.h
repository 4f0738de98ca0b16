// tests/gpu/mma_check.h: holds a GPU's tensor cores against the models of their sums, product by
// product.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/stream.h"

namespace caption::testing {

// A sum that differs from the model's: the element [row, column] of a product.
struct MmaDifference {
  std::int64_t product = 0;
  int row = 0;
  int column = 0;
  std::vector<std::uint16_t> a = {};  // the 16 factors of the row, as bits
  std::vector<std::uint16_t> b = {};  // and of the column
  std::uint32_t c = 0;                // bits of the sum before, of the model's sum and of the GPU's
  std::uint32_t expected = 0;
  std::uint32_t found = 0;
};

struct MmaCheck {
  std::string type;   // "bf16", "f16"
  std::string model;  // that of the stream's GPU: "ampere", "hopper"
  std::int64_t products = 0;
  // Products of which every sum has the bits of a model.
  std::int64_t equal = 0;  // those with the bits of `model`
  std::int64_t equal_ampere = 0;
  std::int64_t equal_hopper = 0;
  std::int64_t equal_fused = 0;
  std::optional<MmaDifference> first = {};  // first difference from `model`
};

// Multiplies `count` random matrices [16, 16] by [16, 8] and adds random [16, 8], none infinite or
// NaN. Exponents lie close together in some products and far apart in others, and terms cancel.
// bf16 is not for a GPU that lacks it.
MmaCheck check_mma(Stream& stream, bool is_f16, std::int64_t count);

}  // namespace caption::testing
