// Packing matrices of codes.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/math.h"
#include "kernels/cpu/group_numbers.h"
#include "kernels/cpu/packed_weight.h"
#include "kernels/cpu/panel_numbers.h"
#include "kernels/cpu/panel_rows.h"
#include "kernels/cpu/select_tier.h"
#include "kernels/cpu/tier.h"
#include "tensor/copy.h"

namespace caption::kernels::cpu {

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
  // The rows of the part's codes, which are not words.
  PanelRows codes() const {
    if (part.file_codes.empty()) return of(part.codes);
    return PanelRows(
        std::span(part.file_codes.rows)
            .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)));
  }
};

namespace {

// A part of a matrix that a thread packs at a time, in panels. Formats that hold a matrix
// transposed have the codes of this many features in a line of the processor's caches.
constexpr std::int64_t kMostPanelsOfPart = 4;
// The most panels that are packed from rows of a file at a time. Their scales are held meanwhile.
constexpr std::int64_t kMostPanelsOfRows = 16;
// The same from words: a row of words is read in order, and is part of all panels.
constexpr std::int64_t kMostPanelsOfWords = 512;

// Whether the tier packs codes in this order.
bool takes(const Tier& tier, const FileCodes& codes) {
  switch (codes.order) {
    case CodeOrder::kRows:
    case CodeOrder::kRowsOddFirst: return true;
    case CodeOrder::kBlocks: return tier.pack_blocks != nullptr;
    case CodeOrder::kWordsOfColumns: return tier.pack_words_of_columns != nullptr;
    case CodeOrder::kWordsOfMatrixColumns: return tier.pack_ordered_words != nullptr;
    case CodeOrder::kWordsOfRows: return tier.pack_words_of_rows != nullptr;
  }
  return false;
}

// Returns rows of a matrix where the file has them if the tier packs them from there.
QuantisedMatrix borrow_rows(const Tier& tier, const QuantisedRows& rows, std::int64_t first,
                            std::int64_t count) {
  QuantisedMatrix part = rows.borrow(first, count);
  return takes(tier, part.file_codes) ? std::move(part) : rows(first, count);
}

// The most panels of a part of a matrix whose codes are like those of `part`.
std::int64_t most_panels_of(const QuantisedMatrix& part) {
  if (part.file_codes.empty()) return kMostPanelsOfPart;
  return part.file_codes.words == nullptr ? kMostPanelsOfRows : kMostPanelsOfWords;
}

// Calls `pack(part, panel)`, which packs with the tier's functions, for the parts of a matrix of
// `num_rows` rows, on the pool's threads; `panel` is the first of the part.
template <class Read, class Pack>
void over_parts(ThreadPool& pool, const Tier& tier, std::int64_t num_rows, const Read& read,
                const Pack& pack, std::int64_t most_panels = kMostPanelsOfPart) {
  const std::int64_t num_panels = divide_up(num_rows, kPanelFeatures);
  // All threads have work.
  const std::int64_t num_parts = pool.num_threads() == 1 ? 1 : 4 * pool.num_threads();
  const std::int64_t part_panels = std::clamp<std::int64_t>(num_panels / num_parts, 1, most_panels);
  const std::int64_t part_rows = part_panels * kPanelFeatures;
  pool.parallel_for(divide_up(num_rows, part_rows), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t first = begin * part_rows; first < std::min(num_rows, end * part_rows);
         first += part_rows) {
      pack(read(first, std::min(part_rows, num_rows - first)), first / kPanelFeatures);
    }
    tier.finish_packing();
  });
}

// Calls `pack(rows, panel)` for the panels of a part, of which `panel` is the first.
template <class Pack>
void over_panels(const QuantisedMatrix& part, std::int64_t panel, const Pack& pack) {
  for (std::int64_t row = 0; row < part.num_rows(); row += kPanelFeatures, ++panel) {
    pack(CodeRows{part, row, std::min(kPanelFeatures, part.num_rows() - row)}, panel);
  }
}

static_assert(kUnitColumns == 2 * kUnitPairs);

// Writes numbers [rows, groups] f32 of a panel's rows as [groups, 32]; missing features are zeros.
void pack_floats(const Tier& tier, const CodeRows& rows, const Tensor& numbers, float* to) {
  if (numbers.dim(1) == 1) {
    const float* const from = numbers.as<float>() + rows.first;
    std::fill(std::copy_n(from, rows.count, to), to + kPanelFeatures, 0.0F);
    return;
  }
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(float));
  tier.pack_dwords(rows.of(numbers).args(numbers.dim(1) * kBytes, to));
}
std::vector<float> pack_floats(const Tier& tier, const CodeRows& rows, const Tensor& numbers) {
  std::vector<float> packed(static_cast<std::size_t>(numbers.dim(1) * kPanelFeatures));
  pack_floats(tier, rows, numbers, packed.data());
  return packed;
}

void check_held(float number, float held) {
  CAPTION_CHECK(number == held, "a scale or an offset is not a number of the dtype that holds it");
}

void pack_numbers(const Tier& tier, const CodeRows& rows, const Tensor& numbers,
                  const PanelNumbers& to) {
  if (to.dtype() == DType::kF32) {
    return pack_floats(tier, rows, numbers, static_cast<float*>(to.stored()));
  }
  dispatch_float(to.dtype(), [&](auto tag) {
    auto* held = static_cast<decltype(tag)*>(to.stored());
    for (const float number : pack_floats(tier, rows, numbers)) {
      *held = from_float<decltype(tag)>(number);
      check_held(number, to_float(*held++));
    }
  });
}

// Numbers that so many groups of a row share, [rows, units] f32.
struct Units {
  const Tensor& numbers;
  std::int64_t num_groups;
};

// Packs numbers [rows, groups] f32 as multiples of the units.
void pack_multiples(const Tier& tier, const CodeRows& rows, const Tensor& numbers,
                    const Units& units, const PanelNumbers& to) {
  const std::vector<float> packed_units = pack_floats(tier, rows, units.numbers);
  auto* held = static_cast<std::int8_t*>(to.stored());
  std::int64_t i = 0;
  for (const float number : pack_floats(tier, rows, numbers)) {
    const std::int64_t at = i / kPanelFeatures / units.num_groups * kPanelFeatures;
    const float unit = packed_units[static_cast<std::size_t>(at + i % kPanelFeatures)];
    const float multiple = unit == 0 ? 0.0F : std::nearbyint(number / unit);
    held[i] = static_cast<std::int8_t>(std::clamp(multiple, -128.0F, 127.0F));
    check_held(number, unit * to_float(held[i++]));
  }
}

// Packs scales and offsets that rows have in f32 as multiples of units, and these.
void pack_groups_in_units(const Tier& tier, const CodeRows& rows, const PanelGroups& to) {
  const QuantisedMatrix& part = rows.part;
  const std::int64_t num_groups = kUnitColumns / part.group_columns;
  pack_numbers(tier, rows, part.scale_units, to.scale_units);
  pack_multiples(tier, rows, part.scales, {part.scale_units, num_groups}, to.scales);
  if (to.offsets.empty()) return;
  pack_numbers(tier, rows, part.offset_units, to.offset_units);
  pack_multiples(tier, rows, part.offsets, {part.offset_units, num_groups}, to.offsets);
}

// Packs scales and offsets that rows have in f32.
void pack_groups(const Tier& tier, const CodeRows& rows, const PanelGroups& to) {
  if (to.scales.dtype() == DType::kI8) return pack_groups_in_units(tier, rows, to);
  pack_numbers(tier, rows, rows.part.scales, to.scales);
  if (to.offsets.empty()) return;
  if (to.offsets.dtype() == DType::kI8) {
    return pack_multiples(tier, rows, rows.part.offsets, {rows.part.scales, 1}, to.offsets);
  }
  pack_numbers(tier, rows, rows.part.offsets, to.offsets);
}

// Packs the scales of a panel's rows, in their dtype, and multiples of them made of zeros, from
// where the file has them. Returns whether the scales are finite.
bool pack_file_scales(const Tier& tier, const CodeRows& rows, void* to, std::int8_t* offsets) {
  const FileScales& scales = rows.part.file_scales;
  const auto size = static_cast<std::int64_t>(dtype_size_bytes(scales.dtype));
  constexpr std::int64_t kZerosOfWord = 8;
  return tier.pack_scales(
      {.numbers =
           static_cast<const std::byte*>(scales.numbers) + rows.first * scales.row_stride * size,
       .element = element_of(scales.dtype),
       .row_stride = scales.row_stride,
       .group_stride = scales.group_stride,
       .num_rows = rows.count,
       .num_groups = rows.part.num_groups(),
       .largest = scales.largest,
       .zeros = scales.zeros == nullptr ? nullptr : scales.zeros + rows.first / kZerosOfWord,
       .zero_stride = scales.zero_stride,
       .has_even_rows_first = rows.part.file_codes.order == CodeOrder::kWordsOfRows,
       .middle = scales.middle,
       .to = to,
       .offsets = offsets});
}
bool pack_file_scales(const Tier& tier, const CodeRows& rows, const PanelGroups& to) {
  const auto& [scales, offsets, scale_units, offset_units] = to;
  const FileScales& from = rows.part.file_scales;
  CAPTION_CHECK(from.dtype == scales.dtype() && (from.zeros != nullptr) == !offsets.empty() &&
                    (offsets.empty() || offsets.dtype() == DType::kI8),
                "scales of a file in another dtype than that which holds them");
  return pack_file_scales(tier, rows, scales.stored(), static_cast<std::int8_t*>(offsets.stored()));
}

}  // namespace

PackedWeight PackedWeight::pack_quantised(Stream& stream, std::int64_t num_rows,
                                          const QuantisedRows& rows) {
  CAPTION_CHECK(num_rows > 0, "panels of a weight without rows");
  const Tier& tier = select_tier(stream.cpu_tier());
  const QuantisedMatrix first = borrow_rows(tier, rows, 0, std::min(kPanelFeatures, num_rows));
  CAPTION_CHECK(first.steps.empty(), "panels for activations of bf16 take no integer steps");
  CAPTION_CHECK(first.group_columns % 2 == 0 || first.num_groups() == 1,
                "panels of groups of an odd number of columns");
  PackedWeight packed;
  packed.layout_ = first.is_4_bit()       ? Layout::kPanels4
                   : first.has_e4m3_codes ? Layout::kPanelsE4M3
                                          : Layout::kPanels8;
  packed.num_features_ = num_rows;
  packed.num_columns_ = first.num_columns;
  packed.set_codebook(first.codebook);
  packed.set_column_order(stream, first.column_order);
  const bool is_cut = first.group_columns > kMaxGroupColumns;
  CAPTION_CHECK(!is_cut || first.group_columns % kMaxGroupColumns == 0 || first.num_groups() == 1,
                "panels of groups of " + std::to_string(first.group_columns) + " columns");
  packed.group_columns_ = is_cut ? kMaxGroupColumns : (first.group_columns + 1) / 2 * 2;
  const std::int64_t num_panels = divide_up(num_rows, kPanelFeatures);
  const std::int64_t pairs = divide_up(first.num_columns, 2);
  packed.panels_ =
      first.is_4_bit()
          ? allocate_weight(stream, DType::kU8, {num_panels, pairs, kPanelFeatures})
          : allocate_weight(stream, DType::kI8, {num_panels, pairs, 2 * kPanelFeatures});
  packed.allocate_numbers(stream, first, num_panels);
  over_parts(
      stream.pool(), tier, num_rows,
      [&](std::int64_t row, std::int64_t count) { return borrow_rows(tier, rows, row, count); },
      [&](const QuantisedMatrix& part, std::int64_t panel) {
        if (packed.pack_part(tier, part, panel)) return;
        // Reading the part as numbers throws an error that names what is not finite.
        const std::int64_t row = panel * kPanelFeatures;
        CAPTION_CHECK(packed.pack_part(tier, rows(row, part.num_rows()), panel),
                      "rows with a scale or number that is not finite were read without an error");
      },
      most_panels_of(first));
  return packed;
}

void PackedWeight::allocate_numbers(Stream& stream, const QuantisedMatrix& like,
                                    std::int64_t num_panels) {
  const NumberDTypes held = like.number_dtypes;
  const std::int64_t groups = divide_up(num_columns_, group_columns_);
  scales_ = allocate_weight(stream, held.scales, {num_panels, groups, kPanelFeatures});
  if (like.has_offsets()) offsets_ = allocate_weight(stream, held.offsets, scales_.shape());
  if (!held.has_units()) return;
  CAPTION_CHECK(held.offsets == DType::kI8 && kUnitColumns % group_columns_ == 0 &&
                    group_columns_ == like.group_columns,
                "units of groups of " + std::to_string(like.group_columns) + " columns");
  const Shape units = {num_panels, divide_up(num_columns_, kUnitColumns), kPanelFeatures};
  scale_units_ = allocate_weight(stream, DType::kF16, units);
  if (like.has_offsets()) offset_units_ = allocate_weight(stream, DType::kF16, units);
}

void PackedWeight::set_column_order(Stream& stream, const ColumnOrder& order) {
  if (order == nullptr) return;
  CAPTION_CHECK(std::ssize(*order) == num_columns_, "an order of another number of columns");
  shared_order_ = order;
  column_order_ = copy_to(stream, stream.device(), view_of(std::span(*order)));
}

bool PackedWeight::pack_part(const Tier& tier, const QuantisedMatrix& part, std::int64_t panel) {
  const CodeOrder order = part.file_codes.order;
  if (order == CodeOrder::kBlocks) return pack_blocks(tier, part, panel);
  const bool is_of_words = part.file_codes.words != nullptr;
  bool is_finite = true;
  over_panels(part, panel, [&](const CodeRows& rows, std::int64_t of_rows) {
    is_finite &= pack_groups_of_panel(tier, rows, of_rows);
    if (!is_of_words) is_finite &= pack_panel(tier, rows, of_rows);
  });
  if (!is_of_words || !is_finite) return is_finite;
  const std::int64_t panel_bytes = panels_.dim(1) * panels_.dim(2);
  pack_file_words(tier, part, panels_.as<std::uint8_t>() + panel * panel_bytes, panel_bytes);
  return true;
}

bool PackedWeight::pack_blocks(const Tier& tier, const QuantisedMatrix& part, std::int64_t panel) {
  CAPTION_CHECK(part.number_dtypes == number_dtypes(part.file_codes.blocks),
                "blocks whose scales are held in another dtype");
  const std::int64_t panel_bytes = panels_.dim(1) * panels_.dim(2);
  auto* const codes = static_cast<std::uint8_t*>(panels_.view().raw()) + panel * panel_bytes;
  const PanelGroups groups = groups_of_panel(panel, part.num_groups());
  bool is_finite = true;
  over_panels(part, 0, [&](const CodeRows& rows, std::int64_t further) {
    const PanelRows from = rows.codes();
    is_finite &= tier.pack_blocks({.blocks = part.file_codes.blocks,
                                   .rows = from.rows(),
                                   .num_columns = num_columns_,
                                   .to = codes + further * panel_bytes,
                                   .scales = groups.scales.stored(further),
                                   .offsets = groups.offsets.stored(further),
                                   .scale_units = groups.scale_units.stored(further),
                                   .offset_units = groups.offset_units.stored(further)});
  });
  return is_finite;
}

bool PackedWeight::pack_groups_of_panel(const Tier& tier, const CodeRows& rows,
                                        std::int64_t panel) {
  const PanelGroups groups = groups_of_panel(panel, rows.part.num_groups());
  bool is_finite = true;
  if (rows.part.file_scales.empty()) {
    pack_groups(tier, rows, groups);
  } else {
    is_finite = pack_file_scales(tier, rows, groups);
  }
  groups.scales.repeat(group_columns_, rows.part.group_columns);
  groups.offsets.repeat(group_columns_, rows.part.group_columns);
  return is_finite;
}

bool PackedWeight::pack_panel(const Tier& tier, const CodeRows& rows, std::int64_t panel) {
  std::byte* const codes =
      static_cast<std::byte*>(panels_.view().raw()) + panel * panels_.dim(1) * panels_.dim(2);
  const PanelRows from = rows.codes();
  PanelRowsArgs args = from.args(num_columns_, codes);
  if (layout_ == Layout::kPanelsE4M3) return tier.pack_e4m3(args);
  if (layout_ == Layout::kPanels8) {
    tier.pack_words(args);
  } else {
    args.has_odd_first = rows.part.file_codes.order == CodeOrder::kRowsOddFirst;
    tier.pack_nibbles(args);
  }
  return true;
}

PackedWeight PackedWeight::pack_8a8(Stream& stream, std::int64_t num_rows,
                                    const QuantisedRows& rows) {
  CAPTION_CHECK(num_rows > 0, "panels of a weight without rows");
  const Tier& tier = select_tier(stream.cpu_tier());
  const auto read = [&](std::int64_t first, std::int64_t count) {
    return borrow_rows(tier, rows, first, count);
  };
  const QuantisedMatrix first = read(0, 1);
  const std::int64_t num_columns = first.num_columns;
  const std::int64_t num_panels = divide_up(num_rows, kPanelFeatures);
  const std::int64_t quads = divide_up(num_columns, 4);
  PackedWeight packed;
  packed.layout_ = Layout::kPanels8A8;
  packed.num_features_ = num_rows;
  packed.num_columns_ = num_columns;
  packed.group_columns_ = num_columns;
  packed.panels_ = allocate_weight(stream, DType::kU8, {num_panels, quads, kPanelFeatures, 4});
  packed.scales_ = Tensor::zeros(DType::kF32, {num_panels, kPanelFeatures}, stream.device());
  // Returns whether the scales are finite.
  const auto pack = [&](const QuantisedMatrix& part, std::int64_t first_panel) {
    CAPTION_CHECK(!part.is_4_bit() && part.num_groups() == 1,
                  "kPanels8A8 takes codes of 8 bits with a scale per row");
    bool is_finite = true;
    over_panels(part, first_panel, [&](const CodeRows& of_panel, std::int64_t panel) {
      std::uint8_t* const to =
          packed.panels_.as<std::uint8_t>() + panel * quads * kPanelFeatures * 4;
      constexpr std::uint32_t kPlus128 = 0x80808080;  // added to codes in two's complement
      tier.pack_dwords(of_panel.codes().args(num_columns, to, kPlus128));
      float* const scales = packed.scales_.as<float>() + panel * kPanelFeatures;
      if (part.file_scales.empty()) {
        std::copy_n(part.scales.as<float>() + of_panel.first, of_panel.count, scales);
      } else {
        std::array<float, kPanelFeatures> numbers;  // values of the file's dtype
        is_finite &= pack_file_scales(tier, of_panel, numbers.data(), nullptr);
        const Element element = element_of(part.file_scales.dtype);
        for (std::int64_t n = 0; n < kPanelFeatures; ++n) {
          scales[n] = number_at(numbers.data(), element, n);
        }
      }
    });
    return is_finite;
  };
  over_parts(
      stream.pool(), tier, num_rows, read,
      [&](const QuantisedMatrix& part, std::int64_t panel) {
        // What is not finite is named when it is read.
        if (!pack(part, panel)) pack(rows(panel * kPanelFeatures, part.num_rows()), panel);
      },
      most_panels_of(first));
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
  over_parts(stream.pool(), tier, num_rows, rows,
             [&](const QuantisedMatrix& part, std::int64_t panel) {
               over_panels(part, panel, [&](const CodeRows& of_panel, std::int64_t number) {
                 packed.pack_panel_4a8(tier, of_panel, number);
               });
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

}  // namespace caption::kernels::cpu
