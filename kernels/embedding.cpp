#include "kernels/embedding.h"

#include "backend/dispatch.h"
#include "kernels/internal/check.h"

namespace caption::kernels {

void embedding(Stream& stream, ConstView ids, const Weight& table, View y) {
  const internal::Check check("embedding", stream);
  check.rank("ids", ids, 1);
  check.i32("ids", ids, {ids.dim(0)});
  check.dense("ids", ids);
  check.device("table", table.device());
  check.f32("y", y, {ids.dim(0), table.num_columns()});
  dispatch(stream.device(), [&](auto device) { impl::embedding(device, stream, ids, table, y); });
}

}  // namespace caption::kernels
