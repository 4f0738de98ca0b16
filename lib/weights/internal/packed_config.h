// weights/internal/packed_config.h: what the quantization_config of "auto-round", "awq" and "gptq"
// have in common.
// Sources: GPTQModel 7.7.0 (quantization/config.py, BaseQuantizeConfig.to_dict); transformers 5.24
// (utils/quantization_config.py); auto-round 0.16.1 (auto_round/compressors/base.py,
// SerializedCompressorConfig; auto_round/export).
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/json.h"

namespace caption::weights {

// Checks the keys of a configuration: those of its method, `known`, and those that quantisers write
// beside them, by which they tell how the codes were found and which modules have codes. Throws
// Error(kUnavailable) naming key and value for another key, and for a value that says that modules
// have codes of another kind or in other words; kBadModel for a value of another type.
void check_packed_config(const JsonObject& config, std::initializer_list<std::string_view> known);

// Returns the layout of the words that the keys `keys` name, all of them the same one, or the first
// of `layouts` where none is there. Throws Error(kUnavailable) naming key and value for a layout
// that is none of these, and when two keys differ; kBadModel for a value that is no string.
std::string read_packed_layout(const JsonObject& config,
                               std::initializer_list<std::string_view> keys,
                               std::initializer_list<std::string_view> layouts);

}  // namespace caption::weights
