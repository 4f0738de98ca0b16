// drafts/internal/token_scan.h: finds a token among others.
#pragma once

#include <cstdint>
#include <span>

namespace caption::drafts {

// The loop goes through all tokens, so that compilers make it one of vectors.
inline bool contains(std::span<const std::int32_t> tokens, std::int32_t wanted) {
  std::int32_t found = 0;
  for (const std::int32_t token : tokens) found |= token == wanted ? 1 : 0;
  return found != 0;
}

}  // namespace caption::drafts
