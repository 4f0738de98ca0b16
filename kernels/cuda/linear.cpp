// The dense layer on a GPU: dispatch by weight form.
#include "kernels/linear.h"

#include <algorithm>

#include "kernels/cuda/dense_layer.h"
#include "kernels/cuda/weight_forms.h"

namespace caption::kernels {
namespace cuda {
namespace {

void multiply(Stream& stream, const DenseLayer& layer) {
  if (layer.x.dim(0) == 0) return;
  switch (DeviceForm::of(layer.parts.front().weight).layout()) {
    case Layout::kRows: return multiply_rows(stream, layer);
    case Layout::kTiles: return multiply_tiles(stream, layer);
    case Layout::kCodes: return multiply_codes(stream, layer);
  }
}

}  // namespace
}  // namespace cuda

namespace impl {

void linear(Cuda, Stream& stream, ConstView x, std::span<const LinearPart> parts,
            LinearOutput output) {
  while (!parts.empty()) {
    const std::size_t count = std::min(parts.size(), cuda::kMostParts);
    cuda::multiply(stream, {.x = x, .parts = parts.first(count), .output = output});
    parts = parts.subspan(count);
  }
}

void linear_swiglu(Cuda, Stream& stream, ConstView x, const LinearPart& gate,
                   const LinearPart& up) {
  const LinearPart parts[] = {gate, up};
  cuda::multiply(stream, {.x = x, .parts = parts, .is_swiglu = true});
}

}  // namespace impl
}  // namespace caption::kernels
