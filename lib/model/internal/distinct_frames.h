// model/internal/distinct_frames.h: the distinct frames among those of a clip, so that a still
// picture is encoded once.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/tensor.h"

namespace caption::model {

struct DistinctFrames {
  std::vector<std::int64_t> frames;  // ascending: frames that no earlier frame equals
  std::vector<std::int64_t> index;   // for each frame of the clip, its place in `frames`
};

// Compares the bytes of frames. pixels [frames, ...] f32 on the host, dense.
DistinctFrames find_distinct_frames(ConstView pixels);

// Returns a copy of the rows `frames` of `pixels`, on the host.
Tensor select_frames(ConstView pixels, const std::vector<std::int64_t>& frames);

}  // namespace caption::model
