// model/internal/mrope.h: positions in time, height and width (M-RoPE) of a prompt with vision
// tokens. Source: arXiv:2409.12191; transformers 4.57.6 modeling_qwen3_vl.py (get_rope_index).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/json.h"
#include "model/caption_model.h"

namespace caption::model {

// Vision tokens of one image.
struct VisionGrid {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

// Returns [3, ids]: a text token's three positions are equal and follow the largest one before. The
// tokens of an image, rows * columns consecutive vision tokens, have the same position in time;
// height and width count rows and columns from it. The prompt's vision tokens must fill images.
std::vector<std::int32_t> mrope_positions(const PromptIds& prompt, const VisionGrid& grid);

// Parses mrope_section in rope_scaling (or rope_parameters); `fallback` when it is absent. Throws
// Error(kBadModel) unless it is three positive numbers with the sum head_dim / 2.
std::array<std::int64_t, 3> parse_mrope_section(const JsonObject& config, std::int64_t head_dim,
                                                const std::array<std::int64_t, 3>& fallback);

}  // namespace caption::model
