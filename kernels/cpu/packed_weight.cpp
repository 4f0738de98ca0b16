#include "kernels/cpu/packed_weight.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/math.h"
#include "kernels/cpu/select_tier.h"
#include "kernels/cpu/tier.h"
#include "tensor/copy.h"

namespace caption::kernels::cpu {
namespace {

// The rows of a panel, `stride_bytes` apart; null where the matrix has none.
class PanelRows {
 public:
  PanelRows(const void* first, std::int64_t count, std::int64_t stride_bytes) {
    for (std::int64_t n = 0; n < count; ++n) {
      rows_[static_cast<std::size_t>(n)] =
          static_cast<const std::uint8_t*>(first) + n * stride_bytes;
    }
  }
  PanelRowsArgs args(std::int64_t length, void* to, std::uint32_t flipped = 0) const {
    return {.rows = rows_.data(), .length = length, .to = to, .flipped = flipped};
  }

 private:
  std::array<const std::uint8_t*, kPanelFeatures> rows_{};
};

}  // namespace

// Rows [first, first + count) of a part of a matrix of codes, `count` at most kPanelFeatures.
struct CodeRows {
  const QuantisedMatrix& part;
  std::int64_t first;
  std::int64_t count;

  // The rows of one of the part's tensors.
  PanelRows of(const Tensor& tensor) const {
    const auto stride_bytes = static_cast<std::int64_t>(tensor.size_bytes()) / tensor.dim(0);
    return {static_cast<const std::byte*>(tensor.view().raw()) + first * stride_bytes, count,
            stride_bytes};
  }
};

namespace {

// A part of a matrix that a thread packs at a time, in panels. Formats that hold a matrix
// transposed have the codes of this many features in a line of the processor's caches.
constexpr std::int64_t kMostPanelsOfPart = 4;

// Calls `pack(rows, panel)` for each panel of a matrix of `num_rows` rows, on the pool's threads.
template <class Pack>
void over_panels(ThreadPool& pool, std::int64_t num_rows, const QuantisedRows& rows,
                 const Pack& pack) {
  const std::int64_t num_panels = divide_up(num_rows, kPanelFeatures);
  // All threads have work.
  const std::int64_t part_panels =
      std::clamp<std::int64_t>(num_panels / (4 * pool.num_threads()), 1, kMostPanelsOfPart);
  const std::int64_t part_rows = part_panels * kPanelFeatures;
  pool.parallel_for(divide_up(num_rows, part_rows), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t first = begin * part_rows; first < std::min(num_rows, end * part_rows);
         first += part_rows) {
      const QuantisedMatrix part = rows(first, std::min(part_rows, num_rows - first));
      for (std::int64_t row = 0; row < part.num_rows(); row += kPanelFeatures) {
        pack(CodeRows{part, row, std::min(kPanelFeatures, part.num_rows() - row)},
             (first + row) / kPanelFeatures);
      }
    }
  });
}

void pack_panel_16(const Tier& tier, ConstView rows, std::int64_t panel, BF16* to) {
  const std::int64_t first = panel * kPanelFeatures;
  const std::int64_t count = std::min(kPanelFeatures, rows.dim(0) - first);
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(BF16));
  const PanelRows from(rows.as<BF16>() + first * rows.row_stride(), count,
                       rows.row_stride() * kBytes);
  tier.pack_dwords(from.args(rows.dim(1) * kBytes, to));
}

// Writes the numbers [rows, groups] of one panel to panels [panels, groups, 32]; a group of the
// matrix may be several of the panels'. Missing features are zeros.
void pack_groups(const Tier& tier, const CodeRows& rows, const Tensor& numbers,
                 std::int64_t group_columns, float* to, std::int64_t groups) {
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(float));
  const std::int64_t stored = rows.part.num_groups();
  const PanelRows from = rows.of(numbers);
  if (stored == groups) return tier.pack_dwords(from.args(stored * kBytes, to));
  std::vector<float> packed(static_cast<std::size_t>(stored * kPanelFeatures));
  tier.pack_dwords(from.args(stored * kBytes, packed.data()));
  for (std::int64_t g = 0; g < groups; ++g) {
    std::copy_n(packed.data() + g * group_columns / rows.part.group_columns * kPanelFeatures,
                kPanelFeatures, to + g * kPanelFeatures);
  }
}

}  // namespace

PackedWeight::PackedWeight(ConstView rows)
    : rows_(rows), num_features_(rows.dim(0)), num_columns_(rows.dim(1)) {}

PackedWeight::PackedWeight(Tensor rows) : panels_(std::move(rows)) {
  rows_ = panels_.view();
  num_features_ = rows_.dim(0);
  num_columns_ = rows_.dim(1);
}

PackedWeight PackedWeight::pack_panels(Stream& stream, ConstView rows) {
  CAPTION_CHECK(rows.shape().rank() == 2 && rows.dtype() == DType::kBF16 && rows.dim(0) > 0 &&
                    rows.dim(1) > 0,
                "panels of a weight of shape " + rows.shape().to_string() + ", " +
                    std::string(dtype_name(rows.dtype())) + "; bf16 was wanted");
  const std::int64_t num_panels = divide_up(rows.dim(0), kPanelFeatures);
  const std::int64_t pairs = divide_up(rows.dim(1), 2);
  PackedWeight packed;
  packed.layout_ = Layout::kPanels;
  packed.num_features_ = rows.dim(0);
  packed.num_columns_ = rows.dim(1);
  packed.panels_ = Tensor(DType::kBF16, {num_panels, pairs, kPanelFeatures, 2}, stream.device());
  BF16* const panels = packed.panels_.as<BF16>();
  const Tier& tier = select_tier(stream.cpu_tier());
  stream.pool().parallel_for(num_panels, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t panel = begin; panel < end; ++panel) {
      pack_panel_16(tier, rows, panel, panels + panel * pairs * kPanelFeatures * 2);
    }
  });
  return packed;
}

PackedWeight PackedWeight::pack_quantised(Stream& stream, std::int64_t num_rows,
                                          const QuantisedRows& rows) {
  CAPTION_CHECK(num_rows > 0, "panels of a weight without rows");
  const QuantisedMatrix first = rows(0, std::min(kPanelFeatures, num_rows));
  CAPTION_CHECK(first.steps.empty(), "kPanels8 and kPanels4 take no integer steps");
  CAPTION_CHECK(first.group_columns % 2 == 0 || first.num_groups() == 1,
                "panels of groups of an odd number of columns");
  PackedWeight packed;
  packed.layout_ = first.is_4_bit() ? Layout::kPanels4 : Layout::kPanels8;
  packed.num_features_ = num_rows;
  packed.num_columns_ = first.num_columns;
  packed.numbers_ = first.codebook;
  std::transform(first.codebook.begin(), first.codebook.end(), packed.codebook_.begin(), to_bf16);
  packed.set_column_order(stream, first.column_order);
  const bool is_cut = first.group_columns > kMaxGroupColumns;
  CAPTION_CHECK(!is_cut || first.group_columns % kMaxGroupColumns == 0 || first.num_groups() == 1,
                "panels of groups of " + std::to_string(first.group_columns) + " columns");
  packed.group_columns_ = is_cut ? kMaxGroupColumns : (first.group_columns + 1) / 2 * 2;
  const std::int64_t num_panels = divide_up(num_rows, kPanelFeatures);
  const std::int64_t groups = divide_up(first.num_columns, packed.group_columns_);
  const std::int64_t pairs = divide_up(first.num_columns, 2);
  const Device device = stream.device();
  packed.panels_ = first.is_4_bit()
                       ? Tensor(DType::kU8, {num_panels, pairs, kPanelFeatures}, device)
                       : Tensor(DType::kI8, {num_panels, pairs, 2 * kPanelFeatures}, device);
  packed.scales_ = Tensor(DType::kF32, {num_panels, groups, kPanelFeatures}, device);
  if (!first.offsets.empty()) {
    packed.offsets_ = Tensor(DType::kF32, packed.scales_.shape(), device);
  }
  const Tier& tier = select_tier(stream.cpu_tier());
  over_panels(stream.pool(), num_rows, rows, [&](const CodeRows& part, std::int64_t panel) {
    packed.pack_panel(tier, part, panel);
  });
  return packed;
}

void PackedWeight::set_column_order(Stream& stream, const ColumnOrder& order) {
  if (order == nullptr) return;
  CAPTION_CHECK(std::ssize(*order) == num_columns_, "an order of another number of columns");
  shared_order_ = order;
  column_order_ = copy_to(stream, stream.device(), view_of(std::span(*order)));
}

void PackedWeight::pack_panel(const Tier& tier, const CodeRows& rows, std::int64_t panel) {
  std::byte* const codes =
      static_cast<std::byte*>(panels_.view().raw()) + panel * panels_.dim(1) * panels_.dim(2);
  const std::int64_t groups = scales_.dim(1);
  const std::int64_t first = panel * groups * kPanelFeatures;
  pack_groups(tier, rows, rows.part.scales, group_columns_, scales_.as<float>() + first, groups);
  if (!offsets_.empty()) {
    pack_groups(tier, rows, rows.part.offsets, group_columns_, offsets_.as<float>() + first,
                groups);
  }
  const PanelRows from = rows.of(rows.part.codes);
  if (layout_ == Layout::kPanels8) {
    tier.pack_words(from.args(num_columns_, codes));
  } else {
    tier.pack_nibbles(from.args(num_columns_, codes));
  }
}

PackedWeight PackedWeight::pack_8a8(Stream& stream, std::int64_t num_rows,
                                    const QuantisedRows& rows) {
  CAPTION_CHECK(num_rows > 0, "panels of a weight without rows");
  const std::int64_t num_columns = rows(0, 1).num_columns;
  const std::int64_t num_panels = divide_up(num_rows, kPanelFeatures);
  const std::int64_t quads = divide_up(num_columns, 4);
  PackedWeight packed;
  packed.layout_ = Layout::kPanels8A8;
  packed.num_features_ = num_rows;
  packed.num_columns_ = num_columns;
  packed.group_columns_ = num_columns;
  packed.panels_ = Tensor(DType::kU8, {num_panels, quads, kPanelFeatures, 4}, stream.device());
  packed.scales_ = Tensor::zeros(DType::kF32, {num_panels, kPanelFeatures}, stream.device());
  const Tier& tier = select_tier(stream.cpu_tier());
  over_panels(stream.pool(), num_rows, rows, [&](const CodeRows& part, std::int64_t panel) {
    CAPTION_CHECK(!part.part.is_4_bit() && part.part.num_groups() == 1,
                  "kPanels8A8 takes codes of 8 bits with a scale per row");
    std::uint8_t* const to = packed.panels_.as<std::uint8_t>() + panel * quads * kPanelFeatures * 4;
    constexpr std::uint32_t kPlus128 = 0x80808080;  // added to codes in two's complement
    tier.pack_dwords(part.of(part.part.codes).args(num_columns, to, kPlus128));
    std::copy_n(part.part.scales.as<float>() + part.first, part.count,
                packed.scales_.as<float>() + panel * kPanelFeatures);
  });
  return packed;
}

PackedWeight PackedWeight::pack_4a8(Stream& stream, std::int64_t num_rows,
                                    const QuantisedRows& rows) {
  CAPTION_CHECK(num_rows > 0, "panels of a weight without rows");
  const QuantisedMatrix first = rows(0, 1);
  CAPTION_CHECK(
      first.is_4_bit() && !first.steps.empty() && first.group_columns % 4 == 0 &&
          first.group_columns <= 4 * kMaxGroupQuads,
      "kPanels4A8 takes codes of 4 bits with steps and bases, in groups of a multiple of 4 "
      "columns, at most 128");
  const std::int64_t num_panels = divide_up(num_rows, kPanelFeatures);
  const std::int64_t quads = divide_up(first.num_columns, 4);
  PackedWeight packed;
  packed.layout_ = Layout::kPanels4A8;
  packed.num_features_ = num_rows;
  packed.num_columns_ = first.num_columns;
  packed.group_columns_ = first.group_columns;
  const Device device = stream.device();
  packed.panels_ = Tensor::zeros(DType::kU8, {num_panels, quads, 2 * kPanelFeatures}, device);
  packed.scales_ = Tensor::zeros(DType::kF32, {num_panels, kPanelFeatures}, device);
  packed.steps_ =
      Tensor::zeros(DType::kU8, {num_panels, first.num_groups(), 2, kPanelFeatures}, device);
  const Tier& tier = select_tier(stream.cpu_tier());
  over_panels(stream.pool(), num_rows, rows, [&](const CodeRows& part, std::int64_t panel) {
    packed.pack_panel_4a8(tier, part, panel);
  });
  return packed;
}

void PackedWeight::pack_panel_4a8(const Tier& tier, const CodeRows& rows, std::int64_t panel) {
  const std::int64_t groups = rows.part.num_groups();
  std::uint8_t* const codes = panels_.as<std::uint8_t>() + panel * panels_.view().row_stride();
  std::uint8_t* const steps = steps_.as<std::uint8_t>() + panel * groups * 2 * kPanelFeatures;
  std::copy_n(rows.part.scales.as<float>() + rows.first, rows.count,
              scales_.as<float>() + panel * kPanelFeatures);
  const auto* const from_steps = rows.part.steps.as<std::uint8_t>() + rows.first * groups;
  const auto* const from_bases = rows.part.bases.as<std::uint8_t>() + rows.first * groups;
  for (std::int64_t n = 0; n < rows.count; ++n) {
    for (std::int64_t g = 0; g < groups; ++g) {
      std::uint8_t* const to = steps + g * 2 * kPanelFeatures + n;
      to[0] = from_steps[n * groups + g];
      to[kPanelFeatures] = from_bases[n * groups + g];
    }
  }
  tier.pack_nibble_quads(rows.of(rows.part.codes).args(num_columns_, codes));
}

void PackedWeight::unpack_row(std::int64_t n, float* to) const {
  const std::int64_t panel = n / kPanelFeatures;
  const std::int64_t feature = n % kPanelFeatures;
  if (layout_ == Layout::kRows) {
    dispatch_float(rows_.dtype(), [&](auto tag) {
      const auto* const from = rows_.as<decltype(tag)>() + n * rows_.row_stride();
      for (std::int64_t k = 0; k < num_columns_; ++k) to[k] = to_float(from[k]);
    });
    return;
  }
  if (layout_ == Layout::kPanels) {
    const BF16* const pairs =
        panels_.as<BF16>() + panel * panels_.dim(1) * kPanelFeatures * 2 + feature * 2;
    for (std::int64_t k = 0; k < num_columns_; ++k) {
      to[k] = to_float(pairs[k / 2 * 2 * kPanelFeatures + k % 2]);
    }
    return;
  }
  const auto* const bytes = static_cast<const std::uint8_t*>(panels_.view().raw());
  if (layout_ == Layout::kPanels8A8) {
    const std::uint8_t* const quads = bytes + panel * panels_.dim(1) * kPanelFeatures * 4;
    const float scale = scales_.as<float>()[n];
    for (std::int64_t k = 0; k < num_columns_; ++k) {
      const std::int64_t at = (k / 4 * kPanelFeatures + feature) * 4 + k % 4;
      to[k] = scale * static_cast<float>(quads[at] - 128);
    }
    return;
  }
  if (layout_ == Layout::kPanels4A8) {
    const std::uint8_t* const quads = bytes + panel * panels_.view().row_stride();
    const std::uint8_t* const steps =
        steps_.as<std::uint8_t>() + panel * steps_.view().row_stride();
    const float scale = scales_.as<float>()[n];
    for (std::int64_t k = 0; k < num_columns_; ++k) {
      const unsigned both = quads[k / 4 * 2 * kPanelFeatures + quad4_position(feature, k % 4)];
      const int code = static_cast<int>(feature < 16 ? both & 15u : both >> 4u);
      const std::uint8_t* const group = steps + k / group_columns_ * 2 * kPanelFeatures + feature;
      to[k] = scale * static_cast<float>(group[0] * code + group[kPanelFeatures] - 128);
    }
    return;
  }
  const std::int64_t groups = scales_.dim(1);
  const std::int64_t pair_bytes = panels_.dim(2);
  const std::uint8_t* const codes = bytes + panel * panels_.dim(1) * pair_bytes;
  for (std::int64_t k = 0; k < num_columns_; ++k) {
    const std::int64_t group = (panel * groups + k / group_columns_) * kPanelFeatures + feature;
    const std::uint8_t* const pair = codes + k / 2 * pair_bytes;
    float value = 0;
    if (layout_ == Layout::kPanels8) {
      value = static_cast<float>(static_cast<std::int8_t>(pair[panel8_position(feature, k % 2)]));
    } else {
      const unsigned both = pair[panel4_position(feature, k % 2)];
      value = numbers_[feature < 16 ? both & 15u : both >> 4u];
    }
    to[column_order_.empty() ? k : column_order_.as<std::int32_t>()[k]] =
        scales_.as<float>()[group] * value +
        (offsets_.empty() ? 0.0F : offsets_.as<float>()[group]);
  }
}

std::int64_t PackedWeight::size_bytes() const {
  if (layout_ == Layout::kRows) {
    return num_features_ * num_columns_ *
           static_cast<std::int64_t>(dtype_size_bytes(rows_.dtype()));
  }
  return static_cast<std::int64_t>(panels_.size_bytes() + scales_.size_bytes() +
                                   offsets_.size_bytes() + steps_.size_bytes() +
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
