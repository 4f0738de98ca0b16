// The operations one after the other: on the CPU the normalised rows stay in the cache.
#include "kernels/norm_linear.h"

#include "kernels/norm.h"

namespace caption::kernels::impl {
namespace {

void norm(Cpu device, Stream& stream, const RowsToNorm& rows) {
  rms_norm(device, stream, {.x = rows.x, .weight = rows.weight, .eps = rows.eps}, rows.normed);
}

}  // namespace

void norm_linear(Cpu device, Stream& stream, const RowsToNorm& rows,
                 std::span<const LinearPart> parts) {
  norm(device, stream, rows);
  linear(device, stream, rows.normed, parts, LinearOutput::kWrite);
}

void norm_linear_swiglu(Cpu device, Stream& stream, const RowsToNorm& rows, const LinearPart& gate,
                        const LinearPart& up) {
  norm(device, stream, rows);
  linear_swiglu(device, stream, rows.normed, gate, up);
}

}  // namespace caption::kernels::impl
