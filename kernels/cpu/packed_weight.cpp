#include "kernels/cpu/packed_weight.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/math.h"
#include "kernels/cpu/group_numbers.h"
#include "kernels/cpu/panel_numbers.h"
#include "kernels/cpu/panel_rows.h"
#include "kernels/cpu/select_tier.h"
#include "kernels/cpu/tier.h"
#include "tensor/e4m3.h"

namespace caption::kernels::cpu {
namespace {

void pack_panel_16(const Tier& tier, ConstView rows, std::int64_t panel, BF16* to) {
  const std::int64_t first = panel * kPanelFeatures;
  const std::int64_t count = std::min(kPanelFeatures, rows.dim(0) - first);
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(BF16));
  const PanelRows from(rows.as<BF16>() + first * rows.row_stride(), count,
                       rows.row_stride() * kBytes);
  tier.pack_dwords(from.args(rows.dim(1) * kBytes, to));
}

// Columns that are rounded at a time, so that they stay in the first-level cache until they are
// packed.
constexpr std::int64_t kRoundedColumns = 512;

// Packs rows of f32 or f16, each number rounded. `rounded` [32, kRoundedColumns or more] is scratch
// memory.
void pack_rounded_panel(const Tier& tier, ConstView rows, std::int64_t panel, Tensor& rounded,
                        BF16* to) {
  const std::int64_t first = panel * kPanelFeatures;
  const std::int64_t count = std::min(kPanelFeatures, rows.dim(0) - first);
  const Element element = element_of(rows.dtype());
  const auto size = static_cast<std::int64_t>(dtype_size_bytes(rows.dtype()));
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(BF16));
  const PanelRows scratch(rounded.as<BF16>(), count, rounded.dim(1) * kBytes);
  for (std::int64_t k = 0; k < rows.dim(1); k += kRoundedColumns) {
    const std::int64_t columns = std::min(kRoundedColumns, rows.dim(1) - k);
    for (std::int64_t n = 0; n < count; ++n) {
      const std::int64_t at = (first + n) * rows.row_stride() + k;
      tier.round_numbers(static_cast<const std::byte*>(rows.raw()) + at * size, element,
                         reinterpret_cast<std::uint16_t*>(rounded.as<BF16>() + n * rounded.dim(1)),
                         columns);
    }
    tier.pack_dwords(scratch.args(columns * kBytes, to + k * kPanelFeatures));
  }
}

// A panel of a matrix's scales, offsets or units [panels, groups or units, 32]; null where there
// are none.
const void* numbers_of(const Tensor& numbers, std::int64_t panel) {
  if (numbers.empty()) return nullptr;
  const auto size = static_cast<std::int64_t>(dtype_size_bytes(numbers.dtype()));
  return static_cast<const std::byte*>(numbers.view().raw()) +
         panel * numbers.view().row_stride() * size;
}

// QuantisedArgs::first_code of a codebook.
std::optional<int> first_code_of(const std::array<float, 16>& codebook) {
  const float first = codebook.front();
  if (first != std::trunc(first) || first < -16 || first > 1) return std::nullopt;
  for (std::size_t i = 0; i < codebook.size(); ++i) {
    if (codebook[i] != first + static_cast<float>(i)) return std::nullopt;
  }
  return static_cast<int>(first);
}

}  // namespace

PackedWeight::PackedWeight(ConstView rows)
    : rows_(rows), num_features_(rows.dim(0)), num_columns_(rows.dim(1)) {}

PackedWeight::PackedWeight(Tensor rows) : panels_(std::move(rows)) {
  rows_ = panels_.view();
  num_features_ = rows_.dim(0);
  num_columns_ = rows_.dim(1);
}

PackedWeight PackedWeight::allocate_panels(Stream& stream, std::int64_t num_features,
                                           std::int64_t num_columns) {
  PackedWeight packed;
  packed.layout_ = Layout::kPanels;
  packed.num_features_ = num_features;
  packed.num_columns_ = num_columns;
  packed.panels_ = allocate_weight(
      stream, DType::kBF16,
      {divide_up(num_features, kPanelFeatures), divide_up(num_columns, 2), kPanelFeatures, 2});
  return packed;
}

PackedWeight PackedWeight::pack_panels(Stream& stream, ConstView rows) {
  const DType dtype = rows.dtype();
  const bool is_floating = dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
  CAPTION_CHECK(is_floating && rows.shape().rank() == 2 && rows.dim(0) > 0 && rows.dim(1) > 0,
                "panels of a weight of shape " + rows.shape().to_string() + ", " +
                    std::string(dtype_name(dtype)) + "; f32, bf16 or f16 was wanted");
  const bool is_rounded = dtype != DType::kBF16;
  PackedWeight packed = allocate_panels(stream, rows.dim(0), rows.dim(1));
  BF16* const panels = packed.panels_.as<BF16>();
  const std::int64_t panel_size = packed.panels_.view().row_stride();
  const Tier& tier = select_tier(stream.cpu_tier());
  stream.pool().parallel_for(packed.panels_.dim(0), 1, [&](std::int64_t begin, std::int64_t end) {
    // Rows a multiple of a page's half apart would compete for lines of the first-level cache.
    constexpr std::int64_t kPadding = 32;
    Tensor rounded;
    if (is_rounded) rounded = Tensor(DType::kBF16, {kPanelFeatures, kRoundedColumns + kPadding});
    for (std::int64_t panel = begin; panel < end; ++panel) {
      BF16* const to = panels + panel * panel_size;
      if (is_rounded) {
        pack_rounded_panel(tier, rows, panel, rounded, to);
      } else {
        pack_panel_16(tier, rows, panel, to);
      }
    }
    tier.finish_packing();
  });
  return packed;
}

void PackedWeight::set_codebook(const std::array<float, 16>& codebook) {
  numbers_ = codebook;
  std::transform(codebook.begin(), codebook.end(), codebook_.begin(), to_bf16);
  first_code_ = first_code_of(codebook);
}

PanelGroups PackedWeight::groups_of_panel(std::int64_t panel, std::int64_t num_stored) {
  const std::int64_t num_units = scale_units_.empty() ? 0 : scale_units_.dim(1);
  return {.scales = PanelNumbers(scales_, panel, num_stored),
          .offsets = PanelNumbers(offsets_, panel, num_stored),
          .scale_units = PanelNumbers(scale_units_, panel, num_units),
          .offset_units = PanelNumbers(offset_units_, panel, num_units)};
}

QuantisedArgs PackedWeight::panel_args(std::int64_t panel) const {
  const bool has_offsets = !offsets_.empty();
  return {.codes = static_cast<const std::uint8_t*>(panels_.view().raw()) +
                   panel * panels_.view().row_stride(),
          .codebook = reinterpret_cast<const std::uint16_t*>(codebook_.data()),
          .first_code = first_code_.value_or(QuantisedArgs::kNoFirstCode),
          .scales = numbers_of(scales_, panel),
          .scale_element = element_of(scales_.dtype()),
          .scale_units = static_cast<const std::uint16_t*>(numbers_of(scale_units_, panel)),
          .offsets = numbers_of(offsets_, panel),
          .offset_units = static_cast<const std::uint16_t*>(numbers_of(offset_units_, panel)),
          .offset_element = has_offsets ? element_of(offsets_.dtype()) : Element::kF32,
          .num_pairs = panels_.dim(1),
          .group_pairs = group_columns_ / 2};
}

void PackedWeight::unpack_row(std::int64_t n, float* to) const {
  switch (layout_) {
    case Layout::kRows: return unpack_stored(n, to);
    case Layout::kPanels: return unpack_bf16(n, to);
    case Layout::kPanels8:
    case Layout::kPanelsE4M3:
    case Layout::kPanels4: return unpack_codes(n, to);
    case Layout::kPanels8A8: return unpack_8a8(n, to);
    case Layout::kPanels4A8: return unpack_4a8(n, to);
  }
}

void PackedWeight::unpack_stored(std::int64_t n, float* to) const {
  dispatch_float(rows_.dtype(), [&](auto tag) {
    const auto* const from = rows_.as<decltype(tag)>() + n * rows_.row_stride();
    for (std::int64_t k = 0; k < num_columns_; ++k) to[k] = to_float(from[k]);
  });
}

void PackedWeight::unpack_bf16(std::int64_t n, float* to) const {
  const BF16* const pairs = panels_.as<BF16>() + n / kPanelFeatures * panels_.view().row_stride() +
                            n % kPanelFeatures * 2;
  for (std::int64_t k = 0; k < num_columns_; ++k) {
    to[k] = to_float(pairs[k / 2 * 2 * kPanelFeatures + k % 2]);
  }
}

void PackedWeight::unpack_codes(std::int64_t n, float* to) const {
  const std::int64_t feature = n % kPanelFeatures;
  const QuantisedArgs args = panel_args(n / kPanelFeatures);
  const std::int64_t pair_bytes = panels_.dim(2);
  for (std::int64_t k = 0; k < num_columns_; ++k) {
    const std::int64_t group = k / group_columns_ * kPanelFeatures + feature;
    const std::uint8_t* const pair = args.codes + k / 2 * pair_bytes;
    float value = 0;
    if (layout_ == Layout::kPanelsE4M3) {
      value = from_e4m3(pair[panel8_position(feature, k % 2)]);
    } else if (layout_ == Layout::kPanels8) {
      value = static_cast<float>(static_cast<std::int8_t>(pair[panel8_position(feature, k % 2)]));
    } else {
      const unsigned both = pair[panel4_position(feature, k % 2)];
      value = numbers_[feature < 16 ? both & 15u : both >> 4u];
    }
    const float offset = offsets_.empty() ? 0.0F : offset_at(args, group);
    to[column_order_.empty() ? k : column_order_.as<std::int32_t>()[k]] =
        scale_at(args, group) * value + offset;
  }
}

void PackedWeight::unpack_8a8(std::int64_t n, float* to) const {
  const std::int64_t feature = n % kPanelFeatures;
  const std::uint8_t* const quads =
      panels_.as<std::uint8_t>() + n / kPanelFeatures * panels_.view().row_stride();
  const float scale = scales_.as<float>()[n];
  for (std::int64_t k = 0; k < num_columns_; ++k) {
    const std::int64_t at = (k / 4 * kPanelFeatures + feature) * 4 + k % 4;
    to[k] = scale * static_cast<float>(quads[at] - 128);
  }
}

void PackedWeight::unpack_4a8(std::int64_t n, float* to) const {
  const std::int64_t panel = n / kPanelFeatures;
  const std::int64_t feature = n % kPanelFeatures;
  const std::uint8_t* const quads =
      panels_.as<std::uint8_t>() + panel * panels_.view().row_stride();
  const std::uint8_t* const steps = steps_.as<std::uint8_t>() + panel * steps_.view().row_stride();
  const float scale = scales_.as<float>()[n];
  for (std::int64_t k = 0; k < num_columns_; ++k) {
    const unsigned both = quads[k / 4 * 2 * kPanelFeatures + quad4_position(feature, k % 4)];
    const int code = static_cast<int>(feature < 16 ? both & 15u : both >> 4u);
    const std::uint8_t* const group = steps + k / group_columns_ * 2 * kPanelFeatures + feature;
    to[k] = scale * static_cast<float>(group[0] * code + group[kPanelFeatures] - 128);
  }
}

std::int64_t PackedWeight::size_bytes() const {
  if (layout_ == Layout::kRows) {
    return num_features_ * num_columns_ *
           static_cast<std::int64_t>(dtype_size_bytes(rows_.dtype()));
  }
  return static_cast<std::int64_t>(panels_.size_bytes() + scales_.size_bytes() +
                                   offsets_.size_bytes() + scale_units_.size_bytes() +
                                   offset_units_.size_bytes() + steps_.size_bytes() +
                                   column_order_.size_bytes());
}

bool PackedWeight::is_like(const WeightForm& other) const {
  const auto& packed = static_cast<const PackedWeight&>(other);
  if (layout_ != packed.layout_ || group_columns_ != packed.group_columns_) return false;
  if (shared_order_ == packed.shared_order_) return true;
  return shared_order_ != nullptr && packed.shared_order_ != nullptr &&
         *shared_order_ == *packed.shared_order_;
}

std::string PackedWeight::describe() const {
  const auto in_groups = [&](const char* what) {
    return std::string(what) + " in groups of " + std::to_string(group_columns_) + " columns" +
           (shared_order_ == nullptr ? "" : " in another order");
  };
  switch (layout_) {
    case Layout::kRows: return "rows";
    case Layout::kPanels: return "panels of bf16";
    case Layout::kPanels8: return in_groups("panels of 8 bits");
    case Layout::kPanels4: return in_groups("panels of 4 bits");
    case Layout::kPanelsE4M3: return in_groups("panels of e4m3");
    case Layout::kPanels8A8: return "panels of 8 bits for inputs of 8 bits";
    case Layout::kPanels4A8: return in_groups("panels of 4 bits for inputs of 8 bits");
  }
  return "?";
}

bool prefers_panels(CpuTier tier) { return tier >= CpuTier::kAvx512Bf16; }

Weight to_weight(PackedWeight packed, Device device) {
  const std::int64_t num_features = packed.num_features();
  const std::int64_t num_columns = packed.num_columns();
  return {num_features, num_columns, device,
          std::make_unique<const PackedWeight>(std::move(packed))};
}

}  // namespace caption::kernels::cpu
