// model/internal/equal_images.h: the equal images among those of a clip, so that a still picture is
// encoded once.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/tensor.h"

namespace caption::model {

// Returns for each image of `frames_per_image` frames, the last of which may have fewer, the first
// image whose pixels have the same bytes: itself or an earlier one. pixels [frames, ...] f32 on the
// host, dense.
std::vector<std::int64_t> find_equal_images(ConstView pixels, std::int64_t frames_per_image);

}  // namespace caption::model
