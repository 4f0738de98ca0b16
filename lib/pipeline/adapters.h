// pipeline/adapters.h: the adapters that clips and prompts of a run choose by name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace caption::pipeline {

// Index into Options::adapters, or kNoAdapter.
using AdapterIndex = std::int32_t;
inline constexpr AdapterIndex kNoAdapter = -1;
inline constexpr std::size_t kMaxAdapters = 250;

// One of the decoder's adapters, in the order of model::CaptionModel::adapters().
struct AdapterChoice {
  std::string name;
  Hash128 page_identity = {};  // engine::Request::page_identity of the requests that choose it
};

// Whether a name holds a character below U+0020 or U+007F. Names of adapters and prompts do not.
bool holds_control_character(std::string_view name);

// Returns the position of `name` in `names`. Throws Error(kUsage) "where: ..." listing the known
// names when it is not among them.
AdapterIndex find_adapter(const std::vector<std::string>& names, std::string_view name,
                          const std::string& where);

}  // namespace caption::pipeline
