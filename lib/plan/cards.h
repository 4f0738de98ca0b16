// plan/cards.h: data sheet values of the GPUs for which there are presets, so that a GPU preset
// can be planned on a machine without a GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace caption::plan {

struct Card {
  const char* preset;  // name of the preset for this card, such as "t4"
  const char* name;
  std::int64_t memory_bytes = 0;  // as the driver reports it
  double bytes_per_s = 0;
  double flops_per_s = 0;       // dense, 16-bit operands
  double int8_flops_per_s = 0;  // dense, operands of 8-bit integers
  // As this program multiplies fp8: on an H100 by the tensor cores of 16 bits. Cards that cannot
  // have flops_per_s.
  double fp8_flops_per_s = 0;
  int compute_capability = 0;  // 10 * major + minor
};

// Finds a card by its preset's name, "t4", "l4", "a100" or "h100", in any case.
std::optional<Card> find_card(std::string_view name);
std::vector<std::string_view> card_names();

}  // namespace caption::plan
