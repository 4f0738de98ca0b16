#include "kernels/attention.h"

#include <algorithm>

#include "kernels/cpu/attend.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/select_tier.h"

namespace caption::kernels::impl {

void attention(Cpu, Stream& stream, const AttentionInput& input, View y) {
  const std::int64_t seq_len = input.seq_len;
  const std::int64_t heads = y.dim(1);
  const std::int64_t head_dim = y.dim(2);
  const std::int64_t tiles = (seq_len + cpu::kTileQueries - 1) / cpu::kTileQueries;
  const std::int64_t num_seqs = y.dim(0) / seq_len;
  const cpu::Tier& tier = cpu::select_tier(stream.cpu_tier());
  if (input.k.row_stride() != input.v.row_stride()) {
    throw Error(ErrorCode::kInternal, "attention: k and v have different row strides");
  }
  const auto work = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t head = item / tiles % heads;
      const std::int64_t first_row = item / (tiles * heads) * seq_len;
      const std::int64_t first_query = item % tiles * cpu::kTileQueries;
      const std::int64_t first_key = first_row * input.k.row_stride() + head * head_dim;
      const cpu::Keys keys{.k = reinterpret_cast<const std::byte*>(input.k.as<float>() + first_key),
                           .v = reinterpret_cast<const std::byte*>(input.v.as<float>() + first_key),
                           .element = cpu::Element::kF32,
                           .element_bytes = sizeof(float),
                           .token_stride = input.k.row_stride(),
                           .run_tokens = seq_len};
      cpu::Queries queries;
      queries.count = std::min(cpu::kTileQueries, seq_len - first_query);
      for (std::int64_t m = 0; m < queries.count; ++m) {
        const std::int64_t row = first_row + first_query + m;
        queries.q[m] = input.q.as<float>() + row * input.q.row_stride() + head * head_dim;
        queries.y[m] = y.as<float>() + row * y.row_stride() + head * head_dim;
        queries.num_visible[m] = seq_len;
      }
      cpu::attend(tier, keys, queries, head_dim, input.scale);
    }
  };
  cpu::parallel_for(stream, num_seqs * heads * tiles, 2 * cpu::kTileQueries * seq_len * head_dim,
                    work);
}

}  // namespace caption::kernels::impl
