// model/internal/config.h: parsing of what the config.json files of several families share.
//
// All parsers throw Error(kBadModel) for an impossible value and Error(kUnavailable) for a valid
// one that this build cannot run; both name the file and the key.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "model/text_family.h"

namespace caption::model {

// Throw Error(kBadModel), or kUnavailable, "FILE: what".
[[noreturn]] void throw_bad(const JsonObject& config, const std::string& what);
[[noreturn]] void throw_unavailable(const JsonObject& config, const std::string& what);

// Whether the key is there with the value null, which is not the class default for some keys.
bool is_null(const JsonObject& config, std::string_view key);

// Parses rope_theta and rope_scaling, or the rope_parameters of transformers 5, of a decoder whose
// max_position_embeddings is `max_positions`; without a rope_theta it is `default_theta`.
RopeSpec parse_rope(const JsonObject& config, std::int64_t max_positions,
                    double default_theta = 10000);

// Returns eos_token_id, a number or a list, each id once; empty when the key is absent.
std::vector<std::int32_t> parse_eos_ids(const JsonObject& config);

}  // namespace caption::model
