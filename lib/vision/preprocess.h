// vision/preprocess.h: RGB frames -> pixel values, bit-exact with PIL / torchvision (uint8 bicubic
// with antialias).  Source: models.md §1.6, §1.7.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "backend/thread_pool.h"
#include "base/hash.h"
#include "tensor/tensor.h"
#include "video/clip.h"

namespace caption::vision {

struct PreprocessSpec {
  // Exactly one of the two is set when do_resize.
  bool do_resize = true;
  std::optional<int> shortest_edge_px;        // keeps the aspect ratio
  std::optional<std::array<int, 2>> size_px;  // {height, width}, straight
  bool do_center_crop = true;
  std::array<int, 2> crop_px = {336, 336};  // {height, width}; zero-padded when larger
  bool do_normalize = true;                 // (x - 255 mean) / (255 std) in f32
  std::array<float, 3> mean = {0.48145466F, 0.4578275F, 0.40821073F};
  std::array<float, 3> std = {0.26862954F, 0.26130258F, 0.27577711F};
};

// Frames of one clip -> [frames, 3, H, W] f32. Frames may differ in size when the spec ends in one
// size (crop or size_px); otherwise Error(kInternal).
Tensor preprocess(ThreadPool& pool, std::span<const video::Frame> frames,
                  const PreprocessSpec& spec);

// uint8 RGB [height, width, 3] resized to out_height x out_width, the torchvision/PIL way.
video::Frame resize_bicubic_antialias(const video::Frame& frame, int out_width_px,
                                      int out_height_px);

// The first 128 bits of SHA-256 over shape and values: what a clip's vision tokens are made of.
Hash128 pixel_hash(ConstView pixel_values);

}  // namespace caption::vision
