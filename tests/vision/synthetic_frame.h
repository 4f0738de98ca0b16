// tests/vision/synthetic_frame.h: the frames of scripts/golden_frames.py, from the same formula.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "video/clip.h"

namespace caption::testing {

// The integer hash lowbias32 (https://github.com/skeeto/hash-prospector).
inline std::uint32_t mix(std::uint32_t x) {
  x ^= x >> 16;
  x *= 0x7FEB352Du;
  x ^= x >> 15;
  x *= 0x846CA68Bu;
  x ^= x >> 16;
  return x;
}

// `kind`: "noise", "binary" (0 or 255), "waves" (smooth, plus a little noise).
inline video::Frame synthetic_frame(int height_px, int width_px, std::uint32_t seed,
                                    std::string_view kind) {
  video::Frame frame;
  frame.height_px = height_px;
  frame.width_px = width_px;
  frame.rgb.resize(static_cast<std::size_t>(height_px) * static_cast<std::size_t>(width_px) * 3);
  const auto width = static_cast<std::uint32_t>(width_px);
  std::uint32_t index = 0;
  for (std::uint8_t& value : frame.rgb) {
    const std::uint32_t noise = mix(index + seed * 0x9E3779B9u);
    if (kind == "noise") {
      value = static_cast<std::uint8_t>(noise & 255u);
    } else if (kind == "binary") {
      value = static_cast<std::uint8_t>((noise & 1u) * 255u);
    } else {
      CAPTION_CHECK(kind == "waves", "unknown kind of synthetic frame");
      const std::uint32_t x = index / 3 % width;
      const std::uint32_t y = index / (3 * width);
      const std::uint32_t channel = index % 3;
      const std::uint32_t phase =
          (x * (5 + seed % 7) + y * (3 + seed % 5) + channel * (60 + seed % 50) + seed * 17) % 512;
      const std::uint32_t triangle = phase < 256 ? phase : 511 - phase;
      value = static_cast<std::uint8_t>((triangle * 15 + (noise & 255u)) / 16);
    }
    ++index;
  }
  return frame;
}

}  // namespace caption::testing
