#include "video/frame_content.h"

#include <algorithm>
#include <cmath>

#include "video/internal/content_measures.h"

namespace caption::video {
namespace {

// In levels of 0 to 255. H.264, HEVC, VP9, AV1 and MPEG-4 reproduce a flat colour within 2 levels
// (tests/video/frame_content_test.cpp). Filmed walls, skies and fog vary by more than 20 levels
// over a frame, through lighting, vignetting and grain.
constexpr int kMaxFlatDeviation = 5;
// Limited-range video that is not marked as such has black at level 16 and white at 235.
constexpr int kMaxBlack = 16 + kMaxFlatDeviation;
constexpr int kMinWhite = 235 - kMaxFlatDeviation;

// Luma correlation of neighbouring pixels: at most 0.13 in noise that a codec has smoothed, above
// 0.95 in samples/videos, about 0.7 in foliage and confetti at low resolution.
constexpr double kMaxNoiseNear = 0.3;
// Luma correlation at a distance of 16 pixels: above 0.2 in samples/videos, through lighting and
// objects; below 0.05 in noise (of about 4,000 pairs).
constexpr double kMaxNoiseFar = 0.1;
// The standard deviation of full-range noise is 17 (H.264 at CRF 35) to 50 levels, that of film
// grain below 10.
constexpr double kMinNoiseDeviation = 12.0;

// Limit of the change of a block's mean, in levels. A still picture that is coded anew at every
// keyframe changes by up to 3, 8 and 7 levels (H.264 at CRF 23 and 36, MPEG-4 at quantiser 5 and
// 9). Motion changes some block by the contrast of two surfaces, 27 in the stillest clip of
// samples/videos. A pan of a few pixels stays below the limit.
constexpr int kMaxFrozenDifference = 8;

bool is_noise(const Frame& frame) {
  const Texture texture = measure_texture(frame);
  return texture.deviation >= kMinNoiseDeviation && std::abs(texture.near) <= kMaxNoiseNear &&
         std::abs(texture.far) <= kMaxNoiseFar;
}

bool shows_the_same(const Frame& a, const Frame& b) {
  return a.width_px == b.width_px && a.height_px == b.height_px &&
         !differs(a, b, kMaxFrozenDifference);
}

// Returns kPicture when some frame is not of one colour.
FrameContent classify_flat(std::span<const Frame> frames) {
  int darkest = 255, brightest = 0;
  for (const Frame& frame : frames) {
    const Flatness flatness = measure_flatness(frame);
    if (flatness.deviation > kMaxFlatDeviation) return FrameContent::kPicture;
    for (const int level : flatness.colour) {
      darkest = std::min(darkest, level);
      brightest = std::max(brightest, level);
    }
  }
  if (brightest <= kMaxBlack) return FrameContent::kBlack;
  if (darkest >= kMinWhite) return FrameContent::kWhite;
  return FrameContent::kUniform;
}

}  // namespace

FrameContent classify_content(std::span<const Frame> frames) {
  if (frames.empty()) return FrameContent::kPicture;
  const FrameContent flat = classify_flat(frames);
  if (flat != FrameContent::kPicture) return flat;
  if (std::all_of(frames.begin(), frames.end(), is_noise)) return FrameContent::kNoise;
  // A film of one frame, which is then sampled several times, shows no motion either.
  const auto is_like_first = [&](const Frame& frame) {
    return shows_the_same(frames.front(), frame);
  };
  if (frames.size() > 1 && std::all_of(frames.begin() + 1, frames.end(), is_like_first)) {
    return FrameContent::kFrozen;
  }
  return FrameContent::kPicture;
}

std::string_view content_name(FrameContent content) {
  switch (content) {
    case FrameContent::kPicture: return "picture";
    case FrameContent::kBlack: return "black";
    case FrameContent::kWhite: return "white";
    case FrameContent::kUniform: return "uniform";
    case FrameContent::kNoise: return "noise";
    case FrameContent::kFrozen: return "frozen";
  }
  return "picture";
}

std::string_view content_sentence(FrameContent content) {
  switch (content) {
    case FrameContent::kPicture: return {};
    case FrameContent::kBlack: return "every frame is black";
    case FrameContent::kWhite: return "every frame is white";
    case FrameContent::kUniform: return "every frame is one even colour";
    case FrameContent::kNoise: return "every frame is noise";
    case FrameContent::kFrozen: return "every frame is the same picture";
  }
  return {};
}

}  // namespace caption::video
