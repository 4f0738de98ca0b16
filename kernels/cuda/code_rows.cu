// x in the form in which kernels multiply it by codes: rounded to 16 bits, in the order of the
// packed columns, with the sums of groups; or rounded to integers or e4m3 numbers of 8 bits, a
// scale per row (kernels/cuda/code_rows.cuh).
//
// Traffic  x once in, 2 bytes per column out. Measured on no GPU.
#include "base/error.h"
#include "base/math.h"
#include "kernels/cuda/code_rows.cuh"

namespace caption::kernels::cuda {
namespace {

// Some lanes per group; rows from p.rows on have sums of zero.
template <class T>
struct RoundRows {
  static constexpr int kThreads = kThreadsOfRows;
  using Params = RowsParams;
  struct Shared {};

  static CAPTION_DEVICE void run(const Params& p) {
    const int row = block_x();
    const int thread = block_y() * kThreadsOfRows + thread_index();
    const int group = thread / p.lanes_per_group;
    const int within = thread % p.lanes_per_group * kPack;
    const int packed = group * p.shape.packed_group + within;
    const bool is_inside =
        row < p.rows && within < p.shape.packed_group && packed < p.packed_columns;
    float sum = 0;
    if (is_inside) {
      const Packed<float, kPack> columns = load_columns(p, row * p.x_stride, packed);
      Packed<T, kPack> rounded;
      for (int i = 0; i < kPack; ++i) {
        narrow(columns.x[i], rounded.x[i]);
        sum += widen(rounded.x[i]);
      }
      // A lane of the multiplying kernels finds its 8 columns of 32 side by side.
      const LaneColumn lane = lane_of_column(has_narrow_groups(p.shape.packed_group), packed % 32);
      const std::int64_t column = packed / 32 * 32 + lane.t * 8 + lane.j;
      auto* const to = static_cast<T*>(p.to) + std::int64_t{row} * p.packed_columns + column;
      store(reinterpret_cast<Packed<T, kPack>*>(to), rounded);
    }
    if (p.group_sums == nullptr) return;
    for (int mask = 16; mask > 0; mask /= 2) {
      const float other = shuffle_xor(sum, mask);
      if (mask < p.lanes_per_group) sum += other;
    }
    if (within == 0 && group < p.shape.num_groups) {
      const std::int64_t eight = std::int64_t{row / 8} * p.shape.num_groups + group;
      store(p.group_sums + eight * 8 + row % 8, sum);
    }
  }
};

struct IntegerCodes {
  static constexpr float kLargest = 127;  // as the CPU's Tier::to_int8()
  static CAPTION_DEVICE Packed<std::uint8_t, kPack> rounded(const Packed<float, kPack>& x) {
    Packed<std::uint8_t, kPack> codes;
    for (int i = 0; i < kPack; ++i) {
      codes.x[i] = static_cast<std::uint8_t>(nearest_integer(x.x[i]));
    }
    return codes;
  }
};
// Where code_rows() puts what it makes.
struct Places {
  std::size_t group_sums;
  std::size_t scales;
  std::size_t end;
};
Places places_of(const CodeShape& shape, std::int64_t rows) {
  const auto aligned = [](std::int64_t bytes) {
    return static_cast<std::size_t>((bytes + 63) / 64 * 64);
  };
  const bool is_8_bit = has_8_bit_inputs(shape.kind);
  const std::size_t x = aligned(rows * shape.packed_columns() * (is_8_bit ? 1 : 2));
  const std::int64_t sums =
      shape.has_offsets ? divide_up(rows, std::int64_t{8}) * shape.num_groups * 8 * 4 : 0;
  const std::int64_t scales = is_8_bit ? rows * 4 : 0;
  return {.group_sums = x, .scales = x + aligned(sums), .end = x + aligned(sums) + aligned(scales)};
}

int round_up_to_power_of_2(int x) {
  int power = 1;
  while (power < x) power *= 2;
  return power;
}

void launch_rounding(Stream& stream, const RowsParams& params, DType dtype) {
  const bool has_sums = params.group_sums != nullptr;
  const std::int64_t rows = has_sums ? divide_up(params.rows, 8) * 8 : params.rows;
  const std::int64_t groups = divide_up(params.packed_columns, params.shape.packed_group);
  const Grid grid{
      .x = static_cast<unsigned>(rows),
      .y = static_cast<unsigned>(divide_up(groups * params.lanes_per_group, kThreadsOfRows))};
  if (dtype == DType::kBF16) return launch<RoundRows<BF16>>(stream, grid, params);
  launch<RoundRows<F16>>(stream, grid, params);
}

}  // namespace

std::size_t coded_rows_bytes(const CodeShape& shape, std::int64_t num_rows) {
  return places_of(shape, num_rows).end;
}

CodedRows code_rows(Stream& stream, ConstView x, const PackedCodes& weight, std::byte* scratch) {
  const CodeShape& shape = weight.shape;
  CAPTION_CHECK(x.shape() == (Shape{x.dim(0), shape.num_columns}), "code_rows: x is not [M, K]");
  const Places places = places_of(shape, x.dim(0));
  RowsParams params{.x = numbers_of(x),
                    .x_stride = x.row_stride(),
                    .column_order = weight.column_order,
                    .shape = shape,
                    .rows = static_cast<int>(x.dim(0)),
                    .packed_columns = shape.packed_columns(),
                    .has_packs = allows_packs(x, kPack) && shape.group_columns % kPack == 0,
                    .lanes_per_group = round_up_to_power_of_2(shape.packed_group / kPack),
                    .to = scratch,
                    .group_sums = nullptr,
                    .scales = nullptr};
  if (has_8_bit_inputs(shape.kind)) {
    params.scales = reinterpret_cast<float*>(scratch + places.scales);
    const Grid grid{.x = static_cast<unsigned>(params.rows)};
    if (shape.kind == CodeKind::kE4M3) {
      quantise_rows_to_e4m3(stream, grid, params);
    } else {
      launch<QuantiseRows<IntegerCodes>>(stream, grid, params);
    }
  } else {
    if (shape.has_offsets)
      params.group_sums = reinterpret_cast<float*>(scratch + places.group_sums);
    launch_rounding(stream, params, weight.dtype);
  }
  return {.x = scratch, .group_sums = params.group_sums, .scales = params.scales};
}

}  // namespace caption::kernels::cuda
