// model/internal/mrope.h: positions in time, height and width (M-RoPE) of a prompt with vision
// tokens. Sources: arXiv:2409.12191; transformers 4.57.6 modeling_qwen2_5_vl.py,
// modeling_qwen3_vl.py (get_rope_index).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/json.h"
#include "model/caption_model.h"

namespace caption::model {

// Vision tokens of a block of consecutive images, of one size.
struct VisionGrid {
  std::int64_t rows = 0;  // rows of one image
  std::int64_t columns = 0;
  std::int64_t images = 1;
  std::int64_t time_step = 0;  // positions in time between two images
};

// Returns [3, ids] of a prompt whose vision tokens are these blocks in order: a text token's three
// positions are equal and follow the largest one before. So does the first position in time of a
// block, images * rows * columns consecutive vision tokens; that of image i is i * time_step later,
// and height and width count rows and columns from the first. Throws Error(kTooLarge) for positions
// beyond 2^30.
std::vector<std::int32_t> mrope_positions(const PromptIds& prompt,
                                          std::span<const VisionGrid> blocks);

// Parses mrope_section in rope_scaling (or rope_parameters); `fallback` when it is absent. Throws
// Error(kBadModel) unless it is three positive numbers with the sum head_dim / 2.
std::array<std::int64_t, 3> parse_mrope_section(const JsonObject& config, std::int64_t head_dim,
                                                const std::array<std::int64_t, 3>& fallback);

}  // namespace caption::model
