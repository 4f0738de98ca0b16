// kernels/cuda/upload.h: the way of a weight to a GPU: through the stream's uploader or, where it
// has none, through one that lives as long as the weight is placed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "backend/uploader.h"
#include "tensor/tensor.h"

namespace caption::kernels::cuda {

class WeightUpload {
 public:
  // Pieces have at most `piece_bytes`.
  WeightUpload(Stream& stream, std::size_t piece_bytes) : uploader_(stream.uploader()) {
    if (uploader_ == nullptr || uploader_->chunk_bytes() < piece_bytes) {
      uploader_ = &own_.emplace(stream, piece_bytes);
    }
  }
  Uploader& operator*() { return *uploader_; }
  Uploader* operator->() { return uploader_; }
  // Makes the weight complete if nobody calls the uploader's finish().
  void finish() {
    if (own_.has_value()) own_->finish();
  }

 private:
  std::optional<Uploader> own_;
  Uploader* uploader_;
};

// Copies rows of the host to memory of the host, one after the other, on the stream's threads.
inline void collect_rows(Stream& stream, ConstView rows, std::byte* to) {
  const auto element = static_cast<std::int64_t>(dtype_size_bytes(rows.dtype()));
  const std::int64_t row_bytes = rows.num_elements() / rows.dim(0) * element;
  const std::int64_t stride = rows.row_stride() * element;
  const auto* const from = static_cast<const std::byte*>(rows.raw());
  constexpr std::int64_t kBytesAtOnce = std::int64_t{256} << 10;
  const std::int64_t grain = std::max<std::int64_t>(kBytesAtOnce / row_bytes, 1);
  stream.pool().parallel_for(rows.dim(0), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::memcpy(to + row * row_bytes, from + row * stride, static_cast<std::size_t>(row_bytes));
    }
  });
}

}  // namespace caption::kernels::cuda
