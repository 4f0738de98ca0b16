#include "kernels/peak_rate.h"

#include <limits>

#include "backend/dispatch.h"
#include "kernels/internal/check.h"

namespace caption::kernels {

double run_multiply_adds(Stream& stream, PeakArithmetic arithmetic, std::int64_t blocks,
                         View sums) {
  const internal::Check check("run_multiply_adds", stream);
  check.f32("sums", sums, {kPeakThreads});
  if (blocks < 1 || blocks > std::numeric_limits<std::int32_t>::max()) {
    check.fail("the number of blocks is out of range");
  }
  return dispatch(stream.device(), [&](auto device) {
    return impl::run_multiply_adds(device, stream, arithmetic, blocks, sums);
  });
}

}  // namespace caption::kernels
