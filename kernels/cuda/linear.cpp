// The dense layer on a GPU: dispatch by weight form.
#include "kernels/linear.h"

#include <algorithm>

#include "kernels/activation_dtype.h"
#include "kernels/cuda/dense_layer.h"
#include "kernels/cuda/weight_forms.h"
#include "kernels/norm.h"
#include "kernels/norm_linear.h"

namespace caption::kernels {
namespace cuda {
namespace {

// Rows that the blocks of a dense layer normalise themselves. Each block reads them twice; for
// more rows L2 takes longer to deliver them than a launch of its own for the norm would take.
constexpr std::int64_t kMostNormedRows = 8;

void multiply(Stream& stream, const DenseLayer& layer) {
  if (layer.x.dim(0) == 0) return;
  switch (DeviceForm::of(layer.parts.front().weight).layout()) {
    case Layout::kRows: return multiply_rows(stream, layer);
    case Layout::kTiles: return multiply_tiles(stream, layer);
    case Layout::kCodes: return multiply_codes(stream, layer);
  }
}

// The layer of normalised rows, which are those of layer.x afterwards.
void multiply_normed(Stream& stream, const RowsToNorm& rows, DenseLayer layer) {
  const Weight& weight = layer.parts.front().weight;
  const bool is_tiles = DeviceForm::of(weight).layout() == Layout::kTiles;
  if (is_tiles && rows.x.dim(0) <= kMostNormedRows) {
    layer.x = rows.x;
    layer.norm = &rows;
    return multiply(stream, layer);
  }
  // Tiles are multiplied by rounded rows.
  const View normed = is_tiles ? View(rows.normed.raw(), TilesForm::of(weight).tiles().dtype,
                                      rows.x.shape(), rows.normed.device())
                               : rows.normed;
  impl::rms_norm(Cuda{}, stream, {.x = rows.x, .weight = rows.weight, .eps = rows.eps}, normed);
  layer.x = normed;
  multiply(stream, layer);
}

}  // namespace
}  // namespace cuda

namespace impl {

DType activation_dtype(Cuda, const Weight& weight) {
  const bool is_tiles = cuda::DeviceForm::of(weight).layout() == cuda::Layout::kTiles;
  return is_tiles ? cuda::TilesForm::of(weight).tiles().dtype : DType::kF32;
}

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

void norm_linear(Cuda, Stream& stream, const RowsToNorm& rows, std::span<const LinearPart> parts) {
  while (!parts.empty()) {
    const std::size_t count = std::min(parts.size(), cuda::kMostParts);
    cuda::multiply_normed(stream, rows, {.x = rows.x, .parts = parts.first(count)});
    parts = parts.subspan(count);
  }
}

void norm_linear_swiglu(Cuda, Stream& stream, const RowsToNorm& rows, const LinearPart& gate,
                        const LinearPart& up) {
  const LinearPart parts[] = {gate, up};
  cuda::multiply_normed(stream, rows, {.x = rows.x, .parts = parts, .is_swiglu = true});
}

}  // namespace impl
}  // namespace caption::kernels
