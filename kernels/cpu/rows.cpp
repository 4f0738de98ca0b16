#include "kernels/rows.h"

#include <cstddef>
#include <cstring>
#include <string>

#include "base/error.h"
#include "kernels/cpu/parallel.h"

namespace caption::kernels::impl {
namespace {

void check_rows(const char* op, ConstView rows, std::int64_t limit) {
  const std::int32_t* const row = rows.as<std::int32_t>();
  for (std::int64_t i = 0; i < rows.dim(0); ++i) {
    CAPTION_CHECK(row[i] >= 0 && row[i] < limit, std::string(op) + ": row " +
                                                     std::to_string(row[i]) + " is outside [0, " +
                                                     std::to_string(limit) + ")");
  }
}

std::int64_t row_stride_bytes(ConstView view) {
  return view.row_stride() * static_cast<std::int64_t>(dtype_size_bytes(view.dtype()));
}

// Copies row from(i) of x to row to(i) of y, for i in [0, count).
template <class From, class To>
void move_rows(Stream& stream, std::int64_t count, ConstView x, From from, View y, To to) {
  const auto size = static_cast<std::size_t>(x.dim(1)) * dtype_size_bytes(x.dtype());
  if (size == 0) return;
  const auto* const source = static_cast<const std::byte*>(x.raw());
  auto* const target = static_cast<std::byte*>(y.raw());
  const std::int64_t source_stride = row_stride_bytes(x);
  const std::int64_t target_stride = row_stride_bytes(y);
  cpu::parallel_for(stream, count, x.dim(1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::memcpy(target + to(i) * target_stride, source + from(i) * source_stride, size);
    }
  });
}

}  // namespace

void gather_rows(Cpu, Stream& stream, ConstView x, ConstView rows, View y) {
  check_rows("gather_rows", rows, x.dim(0));
  const std::int32_t* const row = rows.as<std::int32_t>();
  move_rows(
      stream, rows.dim(0), x, [row](std::int64_t i) { return std::int64_t{row[i]}; }, y,
      [](std::int64_t i) { return i; });
}

void scatter_rows(Cpu, Stream& stream, ConstView x, ConstView rows, View y) {
  check_rows("scatter_rows", rows, y.dim(0));
  const std::int32_t* const row = rows.as<std::int32_t>();
  move_rows(
      stream, rows.dim(0), x, [](std::int64_t i) { return i; }, y,
      [row](std::int64_t i) { return std::int64_t{row[i]}; });
}

void add_rows(Cpu, Stream& stream, ConstView x, ConstView rows, View y) {
  check_rows("add_rows", rows, y.dim(0));
  const std::int32_t* const row = rows.as<std::int32_t>();
  const std::int64_t dim = x.dim(1);
  const float* const source = x.as<float>();
  float* const target = y.as<float>();
  cpu::parallel_for(stream, rows.dim(0), dim, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float* const from = source + i * x.row_stride();
      float* const to = target + row[i] * y.row_stride();
      for (std::int64_t c = 0; c < dim; ++c) to[c] += from[c];
    }
  });
}

}  // namespace caption::kernels::impl
