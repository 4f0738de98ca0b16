// kernels/cpu/row_order.h: the order in memory of the activations that the panel functions of a
// tier read (Tier::reads_tiled_rows).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/math.h"
#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {

class RowOrder {
 public:
  // A row has numbers in its first `bytes` bytes.
  RowOrder(bool has_tiled_rows, std::int64_t num_rows, std::int64_t bytes)
      : num_tiled_(has_tiled_rows ? num_rows / kTileRows * kTileRows : 0),
        row_bytes_(has_tiled_rows ? divide_up(bytes, kTileBytes) * kTileBytes : bytes) {}

  // a_stride in bytes.
  std::int64_t row_bytes() const { return row_bytes_; }

  // Calls write(m, row) for rows begin .. end - 1: it writes all row_bytes() bytes of row m, zeros
  // behind its numbers included, which are then put into place. `to` begins at row 0.
  template <class Write>
  void write_rows(std::byte* to, std::int64_t begin, std::int64_t end, const Write& write) const {
    std::vector<std::byte> row(static_cast<std::size_t>(begin < num_tiled_ ? row_bytes_ : 0));
    for (std::int64_t m = begin; m < end; ++m) {
      if (m >= num_tiled_) {
        write(m, to + m * row_bytes_);
        continue;
      }
      write(m, row.data());
      std::byte* tile = to + m / kTileRows * kTileRows * row_bytes_ + m % kTileRows * kTileBytes;
      for (std::int64_t at = 0; at < row_bytes_; at += kTileBytes, tile += kTileRows * kTileBytes) {
        std::memcpy(tile, row.data() + at, kTileBytes);
      }
    }
  }

 private:
  std::int64_t num_tiled_;
  std::int64_t row_bytes_;
};

}  // namespace caption::kernels::cpu
