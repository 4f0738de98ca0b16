#include "kernels/weight.h"

#include <string_view>

#include "backend/dispatch.h"
#include "base/error.h"

namespace caption::kernels {
namespace {

void check_rows(std::string_view op, ConstView rows) {
  const DType dtype = rows.dtype();
  const bool is_floating = dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
  CAPTION_CHECK(rows.shape().rank() == 2 && is_floating && rows.num_elements() > 0,
                std::string(op) + ": a matrix of shape " + rows.shape().to_string() + ", " +
                    std::string(dtype_name(dtype)) + "; [N, K] f32, bf16 or f16 was wanted");
}

}  // namespace

Weight::Weight(ConstView rows) {
  if (rows.empty()) return;
  check_rows("weight", rows);
  num_features_ = rows.dim(0);
  num_columns_ = rows.dim(1);
  device_ = rows.device();
  form_ = dispatch(device_, [&](auto device) { return impl::borrow_rows(device, rows); });
}

Weight place_stored(Stream& stream, ConstView rows) {
  check_rows("place_stored", rows);
  return dispatch(stream.device(),
                  [&](auto device) { return impl::place_stored(device, stream, rows); });
}

Weight place_bf16(Stream& stream, ConstView rows) {
  check_rows("place_bf16", rows);
  return dispatch(stream.device(),
                  [&](auto device) { return impl::place_bf16(device, stream, rows); });
}

Weight place_e4m3(Stream& stream, std::int64_t num_features, const QuantisedRows& rows) {
  CAPTION_CHECK(!stream.device().is_cuda(), "place_e4m3: the device is a GPU");
  CAPTION_CHECK(num_features > 0 && rows.borrow(0, 1).has_e4m3_codes,
                "place_e4m3: a matrix without rows, or of other codes");
  return dispatch(stream.device(),
                  [&](Cpu device) { return impl::place_e4m3(device, stream, num_features, rows); });
}

Weight place_quantised(Stream& stream, MatrixFormat format, std::int64_t num_features,
                       const QuantisedRows& rows) {
  CAPTION_CHECK(num_features > 0, "place_quantised: a matrix without rows");
  return dispatch(stream.device(), [&](auto device) {
    return impl::place_quantised(device, stream, format, num_features, rows);
  });
}

std::int64_t placed_bytes(const Context& context, std::int64_t num_features,
                          std::int64_t num_columns, MatrixFormat format, DType stored) {
  return dispatch(context.device, [&](auto device) {
    return impl::placed_bytes(device, context, num_features, num_columns, format, stored);
  });
}

std::int64_t placed_bytes(const Context& context, std::int64_t num_features,
                          std::int64_t num_columns, const CodeLayout& codes) {
  return dispatch(context.device, [&](auto device) {
    return impl::placed_bytes(device, context, num_features, num_columns, codes);
  });
}

bool takes_e4m3(const Context& context, std::int64_t num_columns, const CodeLayout& codes) {
  if (context.device.is_cuda()) return false;
  return dispatch(context.device,
                  [&](Cpu device) { return impl::takes_e4m3(device, num_columns, codes); });
}

bool rounds_input(const Context& context, MatrixFormat format) {
  return dispatch(context.device,
                  [&](auto device) { return impl::rounds_input(device, context, format); });
}

}  // namespace caption::kernels
