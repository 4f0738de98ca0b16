#include "model/internal/placed_rows.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "backend/uploader.h"
#include "kernels/convert.h"
#include "tensor/copy.h"
#include "tensor/dtype.h"

namespace caption::model {
namespace {

constexpr std::int64_t kPieceBytes = std::int64_t{4} << 20;

// Converts numbers of the host to those of `to`, on the uploader's device, piece by piece.
void upload_converted(Stream& host, Uploader& uploader, ConstView file, View to) {
  constexpr std::int64_t kWidth = 1024;
  const auto size = static_cast<std::int64_t>(dtype_size_bytes(to.dtype()));
  const ConstView numbers = file.reshape({file.num_elements()});
  const View placed = to.reshape({to.num_elements()});
  const std::int64_t at_once = kPieceBytes / size;
  for (std::int64_t first = 0; first < numbers.dim(0); first += at_once) {
    const std::int64_t count = std::min(at_once, numbers.dim(0) - first);
    const View piece(uploader.take(static_cast<std::size_t>(count * size)), to.dtype(), {count});
    const std::int64_t width = count % kWidth == 0 ? kWidth : 1;  // threads share rows of it
    kernels::convert(host, numbers.rows(first, count).reshape({count / width, width}),
                     piece.reshape({count / width, width}));
    uploader.copy_to(static_cast<std::byte*>(placed.rows(first, count).raw()));
  }
}

// Numbers of the host on their way to the stream's device: its uploader copies them as they come,
// or they are copied at the end.
class RowsOnDevice {
 public:
  RowsOnDevice(Stream& stream, DType dtype, const Shape& shape)
      : stream_(stream),
        host_(stream.pool(), stream.cpu_tier()),
        rows_(dtype, shape, stream.uploader() == nullptr ? Device::kCpu : stream.device()) {}

  View view() { return rows_.view(); }
  // `to` is a part of view().
  void convert(ConstView numbers, View to) {
    if (stream_.uploader() != nullptr) {
      upload_converted(host_, *stream_.uploader(), numbers, to);
    } else {
      kernels::convert(host_, numbers, to);
    }
  }
  Tensor take() {
    if (rows_.device() == stream_.device()) return std::move(rows_);
    return copy_to(stream_, stream_.device(), std::as_const(rows_).view());
  }

 private:
  Stream& stream_;
  Stream host_;
  Tensor rows_;
};

// Decodes and rounds a matrix into memory of the host: each thread rounds the rows that it has
// decoded while they are in the processor's caches.
Tensor round_on_host(Stream& stream, const weights::Source& source, std::string_view name,
                     const Shape& shape) {
  constexpr std::int64_t kDecodedNumbers = std::int64_t{32} << 10;  // numbers per thread at a time
  const std::int64_t num_columns = shape[1];
  const std::int64_t at_once = std::max<std::int64_t>(1, kDecodedNumbers / num_columns);
  Tensor rounded(DType::kBF16, shape);
  BF16* const to = rounded.as<BF16>();
  stream.pool().parallel_for(shape[0], at_once, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> decoded(static_cast<std::size_t>(at_once * num_columns));
    for (std::int64_t first = begin; first < end; first += at_once) {
      const std::int64_t count = std::min(at_once, end - first);
      source.decode_rows(name, first, count, decoded.data());
      std::transform(decoded.begin(), decoded.begin() + count * num_columns,
                     to + first * num_columns, from_float<BF16>);
    }
  });
  return rounded;
}

}  // namespace

Tensor convert_rows(Stream& stream, ConstView file, DType dtype) {
  RowsOnDevice rows(stream, dtype, file.shape());
  rows.convert(file, rows.view());
  return rows.take();
}

Tensor round_decoded_rows(Stream& stream, const weights::Source& source, std::string_view name,
                          const Shape& shape) {
  if (stream.device() == Device::kCpu) return round_on_host(stream, source, name, shape);
  constexpr std::int64_t kRowsOfThread = 16;
  const std::int64_t num_rows = shape[0];
  const std::int64_t num_columns = shape[1];
  constexpr auto kNumberBytes = static_cast<std::int64_t>(sizeof(float));
  const std::int64_t at_once =
      std::clamp<std::int64_t>(kPieceBytes / (num_columns * kNumberBytes), 1, num_rows);
  RowsOnDevice rounded(stream, DType::kBF16, shape);
  Tensor piece(DType::kF32, {at_once, num_columns});
  for (std::int64_t first = 0; first < num_rows; first += at_once) {
    const std::int64_t count = std::min(at_once, num_rows - first);
    stream.pool().parallel_for(count, kRowsOfThread, [&](std::int64_t begin, std::int64_t end) {
      source.decode_rows(name, first + begin, end - begin, piece.as<float>() + begin * num_columns);
    });
    rounded.convert(std::as_const(piece).view().rows(0, count), rounded.view().rows(first, count));
  }
  return rounded.take();
}

}  // namespace caption::model
