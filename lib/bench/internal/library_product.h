// bench/internal/library_product.h: times a product of matrices by cuBLASLt.
#pragma once

#include "backend/cublas_lt.h"
#include "backend/stream.h"

namespace caption::bench {

// Seconds of a product of random operands on the stream's device: the median of `num_rounds` >= 1
// with the fastest of the algorithms that the library proposes. Weights are read from memory, as a
// step reads them: the calls rotate through copies that together exceed the caches. Throws
// Error(kUnavailable) when the library or the GPU fails, Error(kOutOfMemory) when the operands do
// not fit.
double time_library_product(Stream& stream, const CublasLt& library, const CublasLtShape& shape,
                            int num_rounds);

}  // namespace caption::bench
