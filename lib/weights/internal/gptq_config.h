// weights/internal/gptq_config.h: what the quantization_config of a GPTQ checkpoint says of its
// words, whose layout stands in gptq_source.cpp.
#pragma once

#include <cstdint>

#include "base/json.h"

namespace caption::weights {

struct GptqFormat {
  unsigned bits = 4;
  std::int64_t group_size = 128;  // -1: a whole row
  bool stores_zeros_less_one = true;
  bool has_borrows = false;          // one was subtracted from whole words of zeros
  bool has_group_of_column = false;  // act-order: columns are in any group, which g_idx names

  std::int64_t codes_per_word() const { return 32 / bits; }
  // The code in the middle of the range: -2^(bits - 1) as a signed number.
  std::int32_t middle() const { return 1 << (bits - 1); }
  // A word whose fields are all 1.
  std::uint32_t word_of_ones() const { return bits == 4 ? 0x11111111 : 0x01010101; }
  // A word of qzeros whose zeros are all the middle.
  std::uint32_t word_of_middle_zeros() const {
    return word_of_ones() * static_cast<std::uint32_t>(middle() - (stores_zeros_less_one ? 1 : 0));
  }
};

// Throws Error(kUnavailable) naming key and value for a configuration that says that the values are
// made otherwise; kBadModel for values that none can have.
GptqFormat read_gptq_format(const JsonObject& config);

}  // namespace caption::weights
