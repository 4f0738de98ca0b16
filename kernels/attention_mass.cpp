#include "kernels/attention_mass.h"

#include <string>

#include "backend/dispatch.h"
#include "kernels/internal/check.h"
#include "kernels/internal/check_pages.h"

namespace caption::kernels {

void attention_mass(Stream& stream, ConstView q, const PagedContext& context, float scale,
                    std::span<const AttentionWatch> watches) {
  const internal::Check check("attention_mass", stream);
  internal::check_paged_context(check, q, context, scale);
  for (const AttentionWatch& watch : watches) {
    if (watch.sequence < 0 || watch.sequence >= context.context_lens.dim(0)) {
      check.fail("there is no sequence " + std::to_string(watch.sequence));
    }
    check.rank("sums", watch.sums, 2);
    check.f32("sums", watch.sums, {context.k_pages.dim(2), watch.sums.dim(1)});
  }
  dispatch(stream.device(),
           [&](auto device) { impl::attention_mass(device, stream, q, context, scale, watches); });
}

}  // namespace caption::kernels
