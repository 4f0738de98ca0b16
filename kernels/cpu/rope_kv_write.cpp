// Norms, rotation and writing of the heads of a step, token by token: a token's heads stay in the
// first-level cache from one operation to the next, and the threads meet once.
#include "kernels/rope_kv_write.h"

#include "kernels/cpu/as_floats.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/select_tier.h"
#include "kernels/cpu/write_token.h"
#include "kernels/internal/attention_limits.h"

namespace caption::kernels::impl {
namespace {

// What all heads of q or of k have in common.
struct HeadRotation {
  const float* norm;  // [head_dim] or null
  float eps;
  const float* rope_table;  // [T, head_dim]
};

void norm_and_rotate(const cpu::Tier& tier, View x, std::int64_t token, const HeadRotation& of) {
  const std::int64_t head_dim = x.dim(2);
  const std::int64_t half = head_dim / 2;
  const float* const cosines = of.rope_table + token * head_dim;
  float* head = x.as<float>() + token * x.row_stride();
  for (std::int64_t h = 0; h < x.dim(1); ++h, head += head_dim) {
    if (of.norm != nullptr) {
      tier.rms_norm({.x = head, .weight = of.norm, .eps = of.eps, .y = head, .n = head_dim});
    }
    tier.rotate(
        {.low = head, .high = head + half, .cosines = cosines, .sines = cosines + half, .n = half});
  }
}

}  // namespace

void rope_kv_write(Cpu, Stream& stream, const ProjectedHeads& heads, ConstView rope_table,
                   ConstView slots, const KvLayer& pages) {
  const auto& [q, k, v, q_norm, k_norm, eps] = heads;
  cpu::check_slots(slots, pages);
  const cpu::Tier& tier = cpu::select_tier(stream.cpu_tier());
  float q_memory[internal::kMaxHeadDim];
  float k_memory[internal::kMaxHeadDim];
  const float* const table = rope_table.as<float>();
  const HeadRotation of_q{q_norm.empty() ? nullptr : cpu::as_floats(q_norm, q_memory), eps, table};
  const HeadRotation of_k{k_norm.empty() ? nullptr : cpu::as_floats(k_norm, k_memory), eps, table};
  const std::int32_t* const slot = slots.as<std::int32_t>();
  // The norm and the rotation take so many, approximately.
  constexpr std::int64_t kOperationsPerElement = 4;
  const std::int64_t operations =
      (kOperationsPerElement * (q.dim(1) + k.dim(1)) + 2 * cpu::kOperationsPerWrite * k.dim(1)) *
      k.dim(2);
  cpu::parallel_for(stream, k.dim(0), operations, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      norm_and_rotate(tier, heads.q, t, of_q);
      norm_and_rotate(tier, heads.k, t, of_k);
      cpu::write_token(heads.k.as<float>() + t * heads.k.row_stride(), slot[t], pages.k,
                       pages.k_scales);
      cpu::write_token(heads.v.as<float>() + t * heads.v.row_stride(), slot[t], pages.v,
                       pages.v_scales);
    }
  });
}

}  // namespace caption::kernels::impl
