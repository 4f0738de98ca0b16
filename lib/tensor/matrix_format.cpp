#include "tensor/matrix_format.h"

#include "base/math.h"

namespace caption {
namespace {

// Eight 4-bit codes of successive rows share a 32-bit word, and so do eight zeros.
std::int64_t awq_bytes(std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kWordBytes = 4;
  const std::int64_t words = divide_up(rows, 8);
  const std::int64_t groups = divide_up(columns, 128);
  return kWordBytes * words * columns + 2 * groups * rows + kWordBytes * words * groups;
}

}  // namespace

std::int64_t matrix_bytes(std::int64_t rows, std::int64_t columns, MatrixFormat format,
                          DType stored) {
  const std::int64_t count = rows * columns;
  switch (format) {
    case MatrixFormat::kStored: return count * static_cast<std::int64_t>(dtype_size_bytes(stored));
    case MatrixFormat::kBF16:
    case MatrixFormat::kF16: return 2 * count;
    case MatrixFormat::kInt8: return count + 4 * rows * divide_up(columns, 128);
    case MatrixFormat::kInt8Row:
    case MatrixFormat::kE4M3Row: return count + 4 * rows;
    case MatrixFormat::kInt4A8:
      return rows * (divide_up(columns, 2) + 2 * divide_up(columns, 128) + 4);
    case MatrixFormat::kInt4: return rows * (divide_up(columns, 2) + 8 * divide_up(columns, 128));
    case MatrixFormat::kNf4: return divide_up(count, 2) + 4 * divide_up(count, 64);
    case MatrixFormat::kNf4Double: {
      const std::int64_t blocks = divide_up(count, 64);
      return divide_up(count, 2) + blocks + 4 * divide_up(blocks, 256);
    }
    case MatrixFormat::kAwq: return awq_bytes(rows, columns);
  }
  return 0;
}

}  // namespace caption
