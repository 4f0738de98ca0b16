#include "kernels/rows.h"

#include "backend/dispatch.h"
#include "kernels/internal/check.h"

namespace caption::kernels {
namespace {

void check_rows(const internal::Check& check, ConstView x, ConstView rows, ConstView y) {
  check.rank("x", x, 2);
  check.rank("rows", rows, 1);
  check.rank("y", y, 2);
  check.i32("rows", rows, {rows.dim(0)});
  check.dense("rows", rows);
}

}  // namespace

void gather_rows(Stream& stream, ConstView x, ConstView rows, View y) {
  const internal::Check check("gather_rows", stream);
  check_rows(check, x, rows, y);
  check.same_dtype("x", x, {x.dim(0), x.dim(1)}, x.dtype());
  check.same_dtype("y", y, {rows.dim(0), x.dim(1)}, x.dtype());
  dispatch(stream.device(), [&](auto device) { impl::gather_rows(device, stream, x, rows, y); });
}

void scatter_rows(Stream& stream, ConstView x, ConstView rows, View y) {
  const internal::Check check("scatter_rows", stream);
  check_rows(check, x, rows, y);
  check.same_dtype("x", x, {rows.dim(0), x.dim(1)}, x.dtype());
  check.same_dtype("y", y, {y.dim(0), x.dim(1)}, x.dtype());
  dispatch(stream.device(), [&](auto device) { impl::scatter_rows(device, stream, x, rows, y); });
}

void add_rows(Stream& stream, ConstView x, ConstView rows, View y) {
  const internal::Check check("add_rows", stream);
  check_rows(check, x, rows, y);
  check.f32("x", x, {rows.dim(0), x.dim(1)});
  check.f32("y", y, {y.dim(0), x.dim(1)});
  dispatch(stream.device(), [&](auto device) { impl::add_rows(device, stream, x, rows, y); });
}

}  // namespace caption::kernels
