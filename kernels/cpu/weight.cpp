// Placing weights on the CPU, and on the mirror.
#include "kernels/weight.h"

#include <algorithm>
#include <utility>

#include "base/math.h"
#include "kernels/convert.h"
#include "kernels/cpu/packed_weight.h"
#include "tensor/copy.h"

namespace caption::kernels::impl {
namespace {

using cpu::PackedWeight;
using cpu::to_weight;

// Returns dense rows rounded to bf16, on `device`. `rows` are on the host.
Tensor round_to_bf16(Stream& stream, ConstView rows, Device device) {
  Tensor rounded(DType::kBF16, rows.shape());
  Stream host(stream.pool(), stream.cpu_tier());
  kernels::convert(host, rows, rounded.view());
  if (device == Device::kCpu) return rounded;
  return copy_to(stream, device, rounded.view());
}

}  // namespace

std::unique_ptr<const WeightForm> borrow_rows(Cpu, ConstView rows) {
  return std::make_unique<const PackedWeight>(rows);
}

Weight place_stored(Cpu, Stream& stream, ConstView rows) {
  if (stream.device() == Device::kCpu) return rows;
  return to_weight(PackedWeight(copy_to(stream, stream.device(), rows)), stream.device());
}

Weight place_bf16(Cpu, Stream& stream, ConstView rows) {
  const Device device = stream.device();
  const bool is_bf16 = rows.dtype() == DType::kBF16 && rows.is_dense();
  if (!cpu::prefers_panels(stream.cpu_tier())) {
    if (is_bf16) return place_stored(Cpu{}, stream, rows);
    return to_weight(PackedWeight(round_to_bf16(stream, rows, device)), device);
  }
  return to_weight(PackedWeight::pack_panels(stream, rows), device);
}

Weight place_e4m3(Cpu, Stream& stream, std::int64_t num_features, const QuantisedRows& rows) {
  return to_weight(PackedWeight::pack_quantised(stream, num_features, rows), stream.device());
}

Weight place_quantised(Cpu, Stream& stream, MatrixFormat format, std::int64_t num_features,
                       const QuantisedRows& rows) {
  CAPTION_CHECK(format != MatrixFormat::kE4M3Row,
                "place_quantised: the CPU does not multiply e4m3");
  const auto pack = [&] {
    if (format == MatrixFormat::kInt8Row) return PackedWeight::pack_8a8(stream, num_features, rows);
    if (format == MatrixFormat::kInt4A8) return PackedWeight::pack_4a8(stream, num_features, rows);
    return PackedWeight::pack_quantised(stream, num_features, rows);
  };
  return to_weight(pack(), stream.device());
}

std::int64_t placed_bytes(Cpu, const Context& context, std::int64_t num_features,
                          std::int64_t num_columns, MatrixFormat format, DType stored) {
  constexpr std::int64_t kScaleBytes = 4;
  const std::int64_t features = divide_up(num_features, cpu::kPanelFeatures) * cpu::kPanelFeatures;
  const std::int64_t pairs = divide_up(num_columns, 2);
  const auto groups = [&](std::int64_t columns) { return divide_up(num_columns, columns); };
  switch (format) {
    case MatrixFormat::kBF16:
      if (cpu::prefers_panels(context.cpu_tier)) return features * pairs * 4;
      break;
    case MatrixFormat::kInt8: return features * (2 * pairs + kScaleBytes * groups(128));
    case MatrixFormat::kInt8Row: return features * (4 * divide_up(num_columns, 4) + kScaleBytes);
    case MatrixFormat::kInt4: return features * (pairs + 2 * kScaleBytes * groups(128));
    case MatrixFormat::kInt4A8:
      return features * (2 * divide_up(num_columns, 4) + 2 * groups(128) + kScaleBytes);
    case MatrixFormat::kNf4: return features * (pairs + kScaleBytes * groups(64));
    case MatrixFormat::kE4M3Row:  // held on GPUs only
    case MatrixFormat::kStored:
    case MatrixFormat::kF16:
    case MatrixFormat::kNf4Double:
    case MatrixFormat::kAwq: break;
  }
  return matrix_bytes(num_features, num_columns, format, stored);
}

std::int64_t placed_bytes(Cpu, const Context& /*context*/, std::int64_t num_features,
                          std::int64_t num_columns, const CodeLayout& codes) {
  constexpr std::int64_t kIndexBytes = 4;  // size of a column's index
  const std::int64_t features = divide_up(num_features, cpu::kPanelFeatures) * cpu::kPanelFeatures;
  const std::int64_t pairs = divide_up(num_columns, 2);
  const std::int64_t groups =
      divide_up(num_columns, std::min(codes.group_columns, cpu::kMaxGroupColumns));
  return features * ((codes.is_8_bit ? 2 : 1) * pairs + codes.number_bytes(num_columns, groups)) +
         (codes.has_column_order ? kIndexBytes * num_columns : 0);
}

bool takes_e4m3(Cpu, std::int64_t num_columns, const CodeLayout& codes) {
  const std::int64_t group = codes.group_columns;
  const bool is_even = group <= cpu::kMaxGroupColumns && group % 2 == 0;
  return is_even || group % cpu::kMaxGroupColumns == 0 || group >= num_columns;
}

bool rounds_input(Cpu, const Context& context, MatrixFormat format) {
  switch (format) {
    case MatrixFormat::kBF16: return cpu::prefers_panels(context.cpu_tier);
    case MatrixFormat::kInt8:
    case MatrixFormat::kInt8Row:
    case MatrixFormat::kInt4:
    case MatrixFormat::kInt4A8:
    case MatrixFormat::kNf4: return true;
    case MatrixFormat::kE4M3Row:
    case MatrixFormat::kStored:
    case MatrixFormat::kF16:
    case MatrixFormat::kNf4Double:
    case MatrixFormat::kAwq: break;
  }
  return false;
}

}  // namespace caption::kernels::impl
