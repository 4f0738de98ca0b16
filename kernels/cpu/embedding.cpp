#include "kernels/embedding.h"

#include <string>

#include "base/error.h"
#include "kernels/cpu/parallel.h"
#include "tensor/dtype.h"

namespace caption::kernels::impl {

void embedding(Cpu, Stream& stream, ConstView ids, ConstView table, View y) {
  const std::int32_t* const id = ids.as<std::int32_t>();
  const std::int64_t vocab = table.dim(0);
  const std::int64_t dim = table.dim(1);
  for (std::int64_t t = 0; t < ids.dim(0); ++t) {
    CAPTION_CHECK(id[t] >= 0 && id[t] < vocab, "embedding: id " + std::to_string(id[t]) +
                                                   " is outside the vocabulary of " +
                                                   std::to_string(vocab));
  }
  dispatch_float(table.dtype(), [&](auto tag) {
    const auto* const rows = table.as<decltype(tag)>();
    float* const out = y.as<float>();
    cpu::parallel_for(stream, ids.dim(0), dim, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        const auto* const from = rows + id[t] * table.row_stride();
        float* const to = out + t * y.row_stride();
        for (std::int64_t c = 0; c < dim; ++c) to[c] = to_float(from[c]);
      }
    });
  });
}

}  // namespace caption::kernels::impl
