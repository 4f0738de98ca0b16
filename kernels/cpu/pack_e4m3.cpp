// Numbers of e4m3 with scales, held as bf16.
#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/error.h"
#include "base/math.h"
#include "kernels/cpu/packed_weight.h"
#include "kernels/cpu/panel_rows.h"
#include "kernels/cpu/select_tier.h"
#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {
namespace {

// Columns of a panel that are widened at a time, so that they stay in the first-level cache until
// they are packed.
constexpr std::int64_t kWidenedColumns = 512;

const std::uint8_t* codes_of_row(const QuantisedMatrix& rows, std::int64_t n) {
  if (!rows.file_codes.empty()) return rows.file_codes.rows[static_cast<std::size_t>(n)];
  return static_cast<const std::uint8_t*>(rows.codes.view().raw()) + n * rows.num_columns;
}

// Fetches bytes into the second-level cache; where no memory is, nothing happens.
void fetch(const std::uint8_t* begin, std::int64_t count) {
  constexpr std::int64_t kLineBytes = 64;
  constexpr int kSecondLevel = 2;
  for (std::int64_t i = 0; i < count; i += kLineBytes) {
    __builtin_prefetch(begin + i, 0, kSecondLevel);
  }
}

// Returns how many rows from row `n` on lie as far apart as the first two of them and have the same
// scale for a group.
std::int64_t count_alike(const QuantisedMatrix& rows, std::int64_t n, std::int64_t group) {
  // Zeros of both signs are not the same.
  const auto scale_bits = [&](std::int64_t row) {
    return std::bit_cast<std::uint32_t>(rows.scales.as<float>()[row * rows.num_groups() + group]);
  };
  std::int64_t next = n + 1;
  while (next < rows.num_rows() && scale_bits(next) == scale_bits(n) &&
         codes_of_row(rows, next) - codes_of_row(rows, next - 1) ==
             codes_of_row(rows, n + 1) - codes_of_row(rows, n)) {
    ++next;
  }
  return next - n;
}

// Writes columns [first, first + count) of all rows as bf16, `stride` numbers apart. Returns
// whether none is a NaN.
bool widen_columns(const Tier& tier, const QuantisedMatrix& rows, std::int64_t first,
                   std::int64_t count, BF16* to, std::int64_t stride) {
  bool is_number = true;
  for (std::int64_t k = first; k < first + count;) {
    const std::int64_t group = k / rows.group_columns;
    const std::int64_t end = std::min(first + count, (group + 1) * rows.group_columns);
    for (std::int64_t n = 0; n < rows.num_rows();) {
      const std::int64_t alike = count_alike(rows, n, group);
      const std::uint8_t* const codes = codes_of_row(rows, n);
      BF16* const numbers = to + n * stride + (k - first);
      is_number &=
          tier.widen_e4m3({.codes = codes + k,
                           .scale = rows.scales.as<float>()[n * rows.num_groups() + group],
                           .to = reinterpret_cast<std::uint16_t*>(numbers),
                           .n = end - k,
                           .num_rows = alike,
                           .code_stride = alike == 1 ? 0 : codes_of_row(rows, n + 1) - codes,
                           .to_stride = stride});
      n += alike;
    }
    k = end;
  }
  return is_number;
}

// Packs the rows of a panel. Returns whether none of their numbers is a NaN.
bool pack_rows(const Tier& tier, const QuantisedMatrix& rows, Tensor& widened, BF16* panel) {
  const std::int64_t stride = widened.dim(1);
  const PanelRows from(widened.as<BF16>(), rows.num_rows(),
                       stride * static_cast<std::int64_t>(sizeof(BF16)));
  // The next panel's rows follow those of this one and are fetched as they lie in memory.
  const std::uint8_t* ahead = codes_of_row(rows, 0) + rows.num_rows() * rows.num_columns;
  bool is_number = true;
  for (std::int64_t k = 0; k < rows.num_columns; k += kWidenedColumns) {
    const std::int64_t count = std::min(kWidenedColumns, rows.num_columns - k);
    const std::int64_t step = std::min(count, rows.group_columns);
    for (std::int64_t i = 0; i < count; i += step) {
      const std::int64_t columns = std::min(step, count - i);
      fetch(ahead, rows.num_rows() * columns);
      ahead += rows.num_rows() * columns;
      is_number &= widen_columns(tier, rows, k + i, columns, widened.as<BF16>() + i, stride);
    }
    tier.pack_dwords(
        from.args(count * static_cast<std::int64_t>(sizeof(BF16)), panel + k * kPanelFeatures));
  }
  tier.finish_packing();
  return is_number;
}

// Calls place(part, first) for the rows of each panel, on the pool's threads; make_place() is
// called once for each range of panels. Where it returns false, reading the part throws an error
// that names the NaN.
template <class MakePlace>
void over_panel_rows(ThreadPool& pool, std::int64_t num_rows, const QuantisedRows& rows,
                     const MakePlace& make_place) {
  const std::int64_t num_panels = divide_up(num_rows, kPanelFeatures);
  pool.parallel_for(num_panels, 1, [&](std::int64_t begin, std::int64_t end) {
    auto place = make_place();
    for (std::int64_t panel = begin; panel < end; ++panel) {
      const std::int64_t first = panel * kPanelFeatures;
      const std::int64_t count = std::min(kPanelFeatures, num_rows - first);
      if (place(rows.borrow(first, count), first)) continue;
      static_cast<void>(rows(first, count));
      CAPTION_CHECK(false, "rows of e4m3 with a NaN were read without an error");
    }
  });
}

// Returns the number of columns; throws for a matrix that is not of e4m3.
std::int64_t require_e4m3(std::int64_t num_rows, const QuantisedRows& rows) {
  CAPTION_CHECK(num_rows > 0, "a weight of e4m3 without rows");
  const QuantisedMatrix first = rows.borrow(0, 1);
  CAPTION_CHECK(first.has_e4m3_codes && first.column_order == nullptr && !first.has_offsets(),
                "a weight whose codes are not e4m3, or with offsets or an order of columns");
  return first.num_columns;
}

}  // namespace

PackedWeight PackedWeight::pack_e4m3(Stream& stream, std::int64_t num_rows,
                                     const QuantisedRows& rows) {
  PackedWeight packed = allocate_panels(stream, num_rows, require_e4m3(num_rows, rows));
  const std::int64_t panel_size = packed.panels_.view().row_stride();
  BF16* const panels = packed.panels_.as<BF16>();
  const Tier& tier = select_tier(stream.cpu_tier());
  over_panel_rows(stream.pool(), num_rows, rows, [&] {
    // Rows a multiple of a page's half apart would compete for lines of the first-level cache.
    constexpr std::int64_t kPadding = 32;
    return [&, widened = Tensor(DType::kBF16, {kPanelFeatures, kWidenedColumns + kPadding})](
               const QuantisedMatrix& part, std::int64_t first) mutable {
      return pack_rows(tier, part, widened, panels + first / kPanelFeatures * panel_size);
    };
  });
  return packed;
}

Tensor widen_e4m3(Stream& stream, std::int64_t num_rows, const QuantisedRows& rows) {
  const std::int64_t num_columns = require_e4m3(num_rows, rows);
  Tensor widened = allocate_weight(stream, DType::kBF16, {num_rows, num_columns});
  BF16* const to = widened.as<BF16>();
  const Tier& tier = select_tier(stream.cpu_tier());
  over_panel_rows(stream.pool(), num_rows, rows, [&] {
    return [&](const QuantisedMatrix& part, std::int64_t first) {
      return widen_columns(tier, part, 0, num_columns, to + first * num_columns, num_columns);
    };
  });
  return widened;
}

}  // namespace caption::kernels::cpu
