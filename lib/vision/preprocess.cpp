#include "vision/preprocess.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/sha256.h"
#include "vision/internal/resize.h"

namespace caption::vision {
namespace {

using internal::kChannels;
using internal::ResizeAxis;
using internal::Window;

// Limit of the pixels of one preprocessed frame; a vision tower takes at most about a megapixel.
constexpr std::int64_t kMaxOutPixels = std::int64_t{1} << 24;

using Extent = ImageSize;

// Geometry of one frame: it is resized to `resized`; the part `window` of that is placed at
// (pad_top_px, pad_left_px) of an image of size `out`, which is black elsewhere.
struct Geometry {
  Extent resized;
  Window window;
  int pad_top_px = 0;
  int pad_left_px = 0;
  Extent out;
};

Extent smart_extent(const SmartResize& smart, std::int64_t num_frames, Extent frame) {
  constexpr std::int64_t kMaxAspect = 200;
  const auto [shortest, longest] = std::minmax(frame.height_px, frame.width_px);
  if (longest > kMaxAspect * shortest) {
    throw Error(ErrorCode::kTooLarge, "a frame of " + std::to_string(frame.width_px) + "x" +
                                          std::to_string(frame.height_px) +
                                          " pixels: the model takes frames that are at most 200 "
                                          "times as long as wide");
  }
  const auto frames_per_patch = static_cast<double>(smart.frames_per_patch);
  const double frames = std::max(static_cast<double>(num_frames), frames_per_patch);
  const double unit = smart.unit_px;
  const auto height = static_cast<double>(frame.height_px);
  const auto width = static_cast<double>(frame.width_px);
  // Python's round() takes halves to even numbers, as nearbyint() does.
  // With limits per frame, an edge that rounds to no unit counts as 0, below every minimum.
  const double least = smart.counts_clip ? 1 : 0;
  double units_high = std::max(least, std::nearbyint(height / unit));
  double units_wide = std::max(least, std::nearbyint(width / unit));
  const double counted =
      smart.counts_clip ? std::nearbyint(frames / frames_per_patch) * frames_per_patch : 1;
  const double scaled = smart.counts_clip ? frames : 1;
  const double pixels = counted * units_high * unit * units_wide * unit;
  const auto max_pixels = static_cast<double>(smart.max_pixels);
  const auto min_pixels = static_cast<double>(smart.min_pixels);
  if (pixels > max_pixels) {
    const double beta = std::sqrt(scaled * height * width / max_pixels);
    units_high = std::max(1.0, std::floor(height / beta / unit));
    units_wide = std::max(1.0, std::floor(width / beta / unit));
  } else if (pixels < min_pixels) {
    const double beta = std::sqrt(min_pixels / (scaled * height * width));
    units_high = std::ceil(height * beta / unit);
    units_wide = std::ceil(width * beta / unit);
  }
  return {static_cast<std::int64_t>(units_high * unit),
          static_cast<std::int64_t>(units_wide * unit)};
}

Extent resized_extent(const PreprocessSpec& spec, std::int64_t num_frames, Extent frame) {
  if (!spec.do_resize) return frame;
  if (spec.smart) return smart_extent(*spec.smart, num_frames, frame);
  if (spec.size_px) return {(*spec.size_px)[0], (*spec.size_px)[1]};
  const double target = *spec.shortest_edge_px;
  const auto [shortest, longest] = std::minmax(frame.height_px, frame.width_px);
  // Truncated like Python's int(size * long / short).
  const auto new_longest = static_cast<std::int64_t>(target * static_cast<double>(longest) /
                                                     static_cast<double>(shortest));
  const std::int64_t new_shortest = *spec.shortest_edge_px;
  return frame.width_px <= frame.height_px ? Extent{new_longest, new_shortest}
                                           : Extent{new_shortest, new_longest};
}

// Along one axis: the part of `resized` inside a centred crop of size `crop`, and the padding
// before it. Padding and crop offsets are halved rounding down, as in the reference.
struct AxisCrop {
  int first = 0;
  int count = 0;
  int pad = 0;
};
AxisCrop crop_axis(std::int64_t resized, std::int64_t crop) {
  if (crop > resized) {
    return {0, static_cast<int>(resized), static_cast<int>((crop - resized) / 2)};
  }
  return {static_cast<int>((resized - crop) / 2), static_cast<int>(crop), 0};
}

[[noreturn]] void throw_too_large(const PreprocessSpec& spec, const video::Frame& frame,
                                  const Extent& extent) {
  throw Error(ErrorCode::kTooLarge,
              "a frame of " + std::to_string(frame.width_px) + "x" +
                  std::to_string(frame.height_px) + " pixels would be resized to " +
                  std::to_string(extent.width_px) + "x" + std::to_string(extent.height_px) +
                  "; at most " + std::to_string(kMaxOutPixels) +
                  " pixels on an axis or in the result are supported" +
                  (spec.smart ? "; a lower --max-pixels makes them smaller" : ""));
}

Extent extent_of(const video::Frame& frame) { return {frame.height_px, frame.width_px}; }

// `clip` is the size after resizing where it depends on the clip rather than on each frame.
Geometry plan(const video::Frame& frame, const PreprocessSpec& spec,
              const std::optional<Extent>& clip) {
  CAPTION_CHECK(frame.height_px >= 1 && frame.width_px >= 1, "frame without pixels");
  Geometry geometry;
  geometry.resized = clip ? *clip : resized_extent(spec, 1, extent_of(frame));
  geometry.out = spec.do_center_crop ? Extent{spec.crop_px[0], spec.crop_px[1]} : geometry.resized;
  if (std::max(geometry.resized.height_px, geometry.resized.width_px) > kMaxOutPixels) {
    throw_too_large(spec, frame, geometry.resized);
  }
  if (geometry.out.height_px * geometry.out.width_px > kMaxOutPixels) {
    throw_too_large(spec, frame, geometry.out);
  }
  const AxisCrop rows = crop_axis(geometry.resized.height_px, geometry.out.height_px);
  const AxisCrop columns = crop_axis(geometry.resized.width_px, geometry.out.width_px);
  geometry.window = {rows.first, columns.first, rows.count, columns.count};
  geometry.pad_top_px = rows.pad;
  geometry.pad_left_px = columns.pad;
  return geometry;
}

// Geometry and filters for frames of one size.
struct Resizer {
  Geometry geometry;
  ResizeAxis rows;
  ResizeAxis columns;

  Resizer(const video::Frame& frame, const PreprocessSpec& spec, const std::optional<Extent>& clip)
      : geometry(plan(frame, spec, clip)),
        rows(spec.resample, frame.height_px, static_cast<int>(geometry.resized.height_px),
             geometry.window.top_px, geometry.window.height_px),
        columns(spec.resample, frame.width_px, static_cast<int>(geometry.resized.width_px),
                geometry.window.left_px, geometry.window.width_px) {}
};

// The normalisation of each channel as a table over the 256 values of a byte.
class NormaliseTable {
 public:
  explicit NormaliseTable(const PreprocessSpec& spec) {
    for (std::size_t channel = 0; channel < kChannels; ++channel) {
      const float mean = spec.mean[channel] * 255.0F;
      const float std = spec.std[channel] * 255.0F;
      for (std::size_t value = 0; value < 256; ++value) {
        const float x = static_cast<float>(value);
        values_[channel][value] = spec.do_normalize ? (x - mean) / std : x * (1.0F / 255.0F);
      }
    }
  }
  const std::array<float, 256>& channel(int i) const {
    return values_[static_cast<std::size_t>(i)];
  }

 private:
  std::array<std::array<float, 256>, kChannels> values_{};
};

// Returns the SHA-256 of the resized pixels, which determine the values.
Sha256 preprocess_frame(const internal::FilterLoops& loops, const video::Frame& frame,
                        const Resizer& resizer, const NormaliseTable& normalise, float* out) {
  const Geometry& geometry = resizer.geometry;
  const Window& window = geometry.window;
  std::vector<std::uint8_t> rgb(static_cast<std::size_t>(window.height_px) *
                                static_cast<std::size_t>(window.width_px) * kChannels);
  internal::resize_window(loops, frame, resizer.rows, resizer.columns, rgb);

  const std::int64_t plane = geometry.out.height_px * geometry.out.width_px;
  const std::array<float, 256>& reds = normalise.channel(0);
  const std::array<float, 256>& greens = normalise.channel(1);
  const std::array<float, 256>& blues = normalise.channel(2);
  if (window.height_px < geometry.out.height_px || window.width_px < geometry.out.width_px) {
    for (int c = 0; c < kChannels; ++c) {
      std::fill_n(out + c * plane, plane, normalise.channel(c)[0]);
    }
  }
  const std::uint8_t* pixel = rgb.data();
  for (int y = 0; y < window.height_px; ++y) {
    float* const red =
        out + (geometry.pad_top_px + y) * geometry.out.width_px + geometry.pad_left_px;
    float* const green = red + plane;
    float* const blue = green + plane;
    for (int x = 0; x < window.width_px; ++x, pixel += kChannels) {
      red[x] = reds[pixel[0]];
      green[x] = greens[pixel[1]];
      blue[x] = blues[pixel[2]];
    }
  }
  Sha256Hasher hasher;
  hasher.update(std::as_bytes(std::span(rgb)));
  return hasher.digest();
}

void check_spec(const PreprocessSpec& spec) {
  if (spec.do_resize) {
    const int ways = (spec.shortest_edge_px.has_value() ? 1 : 0) +
                     (spec.size_px.has_value() ? 1 : 0) + (spec.smart.has_value() ? 1 : 0);
    CAPTION_CHECK(ways == 1,
                  "a preprocessing spec that resizes needs one of a shortest edge, a size and "
                  "limits of pixels");
    if (spec.smart) {
      CAPTION_CHECK(spec.smart->unit_px >= 1 && spec.smart->frames_per_patch >= 1 &&
                        spec.smart->min_pixels >= 1 &&
                        spec.smart->max_pixels >= spec.smart->min_pixels,
                    "resize to no pixels");
      return;
    }
    CAPTION_CHECK(spec.size_px ? std::min((*spec.size_px)[0], (*spec.size_px)[1]) >= 1
                               : *spec.shortest_edge_px >= 1,
                  "resize to no pixels");
  }
  CAPTION_CHECK(!spec.do_center_crop || std::min(spec.crop_px[0], spec.crop_px[1]) >= 1,
                "crop to no pixels");
}

}  // namespace

void set_max_pixels(std::optional<SmartResize>& resize, std::int64_t max_pixels) {
  if (!resize) {
    throw Error(ErrorCode::kUsage,
                "--max-pixels: the model resizes every frame to one size; only models that take "
                "frames of any size have a limit of pixels; leave it out");
  }
  if (max_pixels < resize->min_pixels) {
    throw Error(ErrorCode::kUsage,
                "--max-pixels is " + std::to_string(max_pixels) + "; the model enlarges " +
                    (resize->counts_clip ? "clips" : "frames") + " to at least " +
                    std::to_string(resize->min_pixels) + " pixels; give at least as many");
  }
  resize->max_pixels = max_pixels;
}

ImageSize output_size(const PreprocessSpec& spec, std::int64_t num_frames, ImageSize frame) {
  if (spec.do_center_crop) return {spec.crop_px[0], spec.crop_px[1]};
  return resized_extent(spec, num_frames, frame);
}

PixelValues preprocess(Stream& stream, std::span<const video::Frame> frames,
                       const PreprocessSpec& spec) {
  CAPTION_CHECK(!frames.empty(), "no frames to preprocess");
  check_spec(spec);
  std::optional<Extent> clip_size;
  if (spec.do_resize && spec.smart) {
    clip_size = resized_extent(spec, std::ssize(frames), extent_of(frames.front()));
  }
  // The frames of a clip usually have one size, so a Resizer is made only when the size changes.
  std::vector<Resizer> resizers;
  std::vector<std::size_t> resizer_of;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    if (i == 0 || frames[i].width_px != frames[i - 1].width_px ||
        frames[i].height_px != frames[i - 1].height_px) {
      resizers.emplace_back(frames[i], spec, clip_size);
      const Extent& first = resizers.front().geometry.out;
      const Extent& out = resizers.back().geometry.out;
      CAPTION_CHECK(out.height_px == first.height_px && out.width_px == first.width_px,
                    "frames of different sizes need a spec that ends in one size");
    }
    resizer_of.push_back(resizers.size() - 1);
  }
  const Extent& out = resizers.front().geometry.out;
  const auto num_frames = static_cast<std::int64_t>(frames.size());
  Tensor pixel_values(DType::kF32, {num_frames, kChannels, out.height_px, out.width_px});
  float* values = pixel_values.as<float>();
  const std::int64_t frame_elements = kChannels * out.height_px * out.width_px;
  const NormaliseTable normalise(spec);
  const internal::FilterLoops& loops = internal::filter_loops(stream.cpu_tier());
  std::vector<Sha256> digests(frames.size());
  stream.pool().parallel_for(num_frames, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto idx = static_cast<std::size_t>(i);
      digests[idx] = preprocess_frame(loops, frames[idx], resizers[resizer_of[idx]], normalise,
                                      values + i * frame_elements);
    }
  });
  Sha256Hasher hasher;
  hasher.update_string(pixel_values.shape().to_string());
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const Window& window = resizers[resizer_of[i]].geometry.window;
    hasher.update_value(window.width_px);
    hasher.update_value(window.height_px);
    hasher.update_value(digests[i].bytes);
  }
  return {.values = std::move(pixel_values), .content = hasher.digest().short_key()};
}

video::Frame resize_antialias(const video::Frame& frame, int out_width_px, int out_height_px,
                              Resample resample, CpuTier tier) {
  CAPTION_CHECK(out_width_px >= 1 && out_height_px >= 1, "resize to no pixels");
  video::Frame out;
  out.width_px = out_width_px;
  out.height_px = out_height_px;
  out.pts_us = frame.pts_us;
  out.frame_idx = frame.frame_idx;
  out.rgb.resize(static_cast<std::size_t>(out_width_px) * static_cast<std::size_t>(out_height_px) *
                 kChannels);
  internal::resize_window(internal::filter_loops(tier), frame,
                          ResizeAxis(resample, frame.height_px, out_height_px, 0, out_height_px),
                          ResizeAxis(resample, frame.width_px, out_width_px, 0, out_width_px),
                          out.rgb);
  return out;
}

}  // namespace caption::vision
