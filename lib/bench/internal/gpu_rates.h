// bench/internal/gpu_rates.h: measures a GPU's memory and arithmetic, as bench/roofline.h
// describes.
#pragma once

#include "bench/roofline.h"

namespace caption::bench {

// `stream` is a GPU's. Throws Error(kUnavailable) when the GPU fails, Error(kOutOfMemory) when it
// has no memory left for the copies.
Roofline measure_gpu(Stream& stream, const RooflineOptions& options);

}  // namespace caption::bench
