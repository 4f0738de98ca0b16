// tests/support/thorough.h: how much of a long enumeration a test goes through.
#pragma once

#include <cstdlib>
#include <string_view>

namespace caption::test {

// Whether tests that make one call after another fail try each of them, as `scripts/test --long` has
// it, instead of one in kThoroughShare.
inline bool is_thorough() {
  const char* const text = std::getenv("CAPTION_THOROUGH_TESTS");
  return text != nullptr && std::string_view(text) == "1";
}
inline constexpr int kThoroughShare = 3;

}  // namespace caption::test
