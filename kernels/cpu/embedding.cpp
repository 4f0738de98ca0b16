#include "kernels/embedding.h"

#include <string>

#include "base/error.h"
#include "kernels/cpu/packed_weight.h"
#include "kernels/cpu/parallel.h"

namespace caption::kernels::impl {

void embedding(Cpu, Stream& stream, ConstView ids, const Weight& table, View y) {
  const std::int32_t* const id = ids.as<std::int32_t>();
  const cpu::PackedWeight& rows = cpu::PackedWeight::of(table);
  const std::int64_t vocab = table.num_features();
  const std::int64_t dim = table.num_columns();
  for (std::int64_t t = 0; t < ids.dim(0); ++t) {
    CAPTION_CHECK(id[t] >= 0 && id[t] < vocab, "embedding: id " + std::to_string(id[t]) +
                                                   " is outside the vocabulary of " +
                                                   std::to_string(vocab));
  }
  float* const out = y.as<float>();
  cpu::parallel_for(stream, ids.dim(0), dim, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) rows.unpack_row(id[t], out + t * y.row_stride());
  });
}

}  // namespace caption::kernels::impl
