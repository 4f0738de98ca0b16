// bench/cards.h: the cards that presets are written for, by their data sheets, so that a GPU preset
// can be planned on a machine without one.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace caption::bench {

struct Card {
  const char* preset;  // "t4": the preset that is written for it
  const char* name;
  std::int64_t memory_bytes = 0;  // as the driver reports it
  double bytes_per_s = 0;
  double flops_per_s = 0;  // dense, 16 bits
};

// "t4", "l4", "a100", "h100", whatever the case.
std::optional<Card> find_card(std::string_view name);
std::vector<std::string_view> card_names();

}  // namespace caption::bench
