#include "tensor/copy.h"

#include <cstring>
#include <string>

#include "backend/device_runtime.h"
#include "backend/dispatch.h"

namespace caption {
namespace {

// Bytes of a row's elements, without the gap before the next row.
std::size_t row_bytes(ConstView view) {
  const std::int64_t rows = view.dim(0);
  return static_cast<std::size_t>(view.num_elements() / rows) * dtype_size_bytes(view.dtype());
}

std::size_t stride_bytes(ConstView view) {
  return static_cast<std::size_t>(view.row_stride()) * dtype_size_bytes(view.dtype());
}

void copy_rows(ConstView from, View to) {
  const std::size_t bytes = row_bytes(from);
  const auto num_rows = static_cast<std::size_t>(from.dim(0));
  const auto* const source = static_cast<const std::byte*>(from.raw());
  auto* const target = static_cast<std::byte*>(to.raw());
  if (from.is_dense() && to.is_dense()) {
    std::memcpy(target, source, num_rows * bytes);
    return;
  }
  for (std::size_t row = 0; row < num_rows; ++row) {
    std::memcpy(target + row * stride_bytes(to), source + row * stride_bytes(from), bytes);
  }
}

RowsToCopy rows_to_copy(ConstView from, View to) {
  if (from.is_dense() && to.is_dense()) {
    return {.to = static_cast<std::byte*>(to.raw()),
            .from = static_cast<const std::byte*>(from.raw()),
            .row_bytes = static_cast<std::size_t>(from.dim(0)) * row_bytes(from),
            .num_rows = 1};
  }
  return {.to = static_cast<std::byte*>(to.raw()),
          .from = static_cast<const std::byte*>(from.raw()),
          .to_stride = stride_bytes(to),
          .from_stride = stride_bytes(from),
          .row_bytes = row_bytes(from),
          .num_rows = static_cast<std::size_t>(from.dim(0))};
}

}  // namespace

void copy(Stream& stream, ConstView from, View to) {
  CAPTION_CHECK(from.dtype() == to.dtype() && from.shape() == to.shape(),
                "a copy of " + from.shape().to_string() + " to " + to.shape().to_string());
  if (from.num_elements() == 0) return;
  const Device device = from.device().is_cuda() ? from.device() : to.device();
  if (device.is_cuda()) {
    CAPTION_CHECK(!stream.device().is_cuda() || stream.device() == device,
                  "a copy of a GPU on a stream of another");
    require_device_runtime(device).copy(stream.queue(), rows_to_copy(from, to));
    return;
  }
  const bool has_mirror = from.device() == Device::kMirror || to.device() == Device::kMirror;
  dispatch(has_mirror ? Device::kMirror : Device::kCpu, [&](Cpu) { copy_rows(from, to); });
}

Tensor copy_to(Stream& stream, Device device, ConstView from) {
  Tensor to(from.dtype(), from.shape(), device);
  copy(stream, from, to.view());
  stream.synchronize();
  return to;
}

}  // namespace caption
