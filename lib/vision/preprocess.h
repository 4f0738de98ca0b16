// vision/preprocess.h: converts RGB frames to the pixel values of a vision tower, bit-exact with
// torchvision (uint8 with antialias).
// Source: transformers 4.57.6,
// src/transformers/models/llava_next_video/video_processing_llava_next_video.py and
// src/transformers/video_processing_utils.py; ATen aten/src/ATen/native/cpu/UpSampleKernel.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "backend/stream.h"
#include "base/hash.h"
#include "tensor/tensor.h"
#include "video/clip.h"

namespace caption::vision {

// A size that keeps the aspect ratio as far as multiples of a merged patch allow, and the number of
// pixels within limits. Source: smart_resize() of transformers 4.57.6,
// src/transformers/models/qwen3_vl/video_processing_qwen3_vl.py and
// src/transformers/models/qwen2_vl/video_processing_qwen2_vl.py.
struct SmartResize {
  int unit_px = 32;  // edge of a merged patch
  int frames_per_patch = 2;
  std::int64_t min_pixels = 4096;
  std::int64_t max_pixels = 25165824;
  bool counts_clip = true;  // the limits are for all frames of a clip, not for one frame

  friend bool operator==(const SmartResize&, const SmartResize&) = default;
};

// Replaces a model's upper limit of pixels: the reference's max_pixels of a frame or, where
// counts_clip, size.longest_edge of all frames of a clip. Throws Error(kUsage) for a model without
// limits, whose frames have one size, and for fewer pixels than its lower limit.
void set_max_pixels(std::optional<SmartResize>& resize, std::int64_t max_pixels);

// The filter of a resize.
enum class Resample {
  kBilinear,  // a triangle, as for SigLIP 2
  kBicubic,
};

struct PreprocessSpec {
  // If do_resize, exactly one of shortest_edge_px, size_px and smart is set.
  bool do_resize = true;
  std::optional<SmartResize> smart = {};
  std::optional<int> shortest_edge_px = {};        // the shorter side; keeps the aspect ratio
  std::optional<std::array<int, 2>> size_px = {};  // {height, width}, whatever the aspect ratio is
  Resample resample = Resample::kBicubic;
  bool do_center_crop = true;
  std::array<int, 2> crop_px = {336, 336};  // {height, width}; black padding when larger
  bool do_normalize = true;                 // (x - 255 mean) / (255 std) in f32, else x / 255
  std::array<float, 3> mean = {0.48145466F, 0.4578275F, 0.40821073F};
  std::array<float, 3> std = {0.26862954F, 0.26130258F, 0.27577711F};

  friend bool operator==(const PreprocessSpec&, const PreprocessSpec&) = default;
};

struct PixelValues {
  Tensor values;  // [frames, 3, H, W] f32
  // The first 128 bits of SHA-256 over the shape and the resized uint8 pixels: equal contents have
  // equal values if they were made with the same spec.
  Hash128 content;
};

struct ImageSize {
  std::int64_t height_px = 0;
  std::int64_t width_px = 0;

  friend bool operator==(const ImageSize&, const ImageSize&) = default;
};
// Returns the size of a clip's frames after preprocess(), from the number of frames and their size.
// A clip of fewer frames than a patch has counts as one of that many. Throws Error(kTooLarge) for
// frames that are more than 200 times as long as wide, or the reverse.
ImageSize output_size(const PreprocessSpec& spec, std::int64_t num_frames, ImageSize frame);

// Converts the frames of one clip, on the stream's threads and on the host, whatever the stream's
// device is. Frames may differ in size only when the spec determines the output size (crop or
// size_px). Throws Error(kInternal) for frames that give different sizes or an invalid spec,
// Error(kTooLarge) for more than 2^24 output pixels on an axis or per frame.
PixelValues preprocess(Stream& stream, std::span<const video::Frame> frames,
                       const PreprocessSpec& spec);

// Resizes uint8 RGB [height, width, 3] to [out_height_px, out_width_px, 3] like torchvision's uint8
// resize with antialias.
video::Frame resize_antialias(const video::Frame& frame, int out_width_px, int out_height_px,
                              Resample resample = Resample::kBicubic,
                              CpuTier tier = fastest_cpu_tier());

}  // namespace caption::vision
