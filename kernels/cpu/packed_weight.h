// kernels/cpu/packed_weight.h: a dense layer's weight in the order in which the CPU's kernels read
// it.
//
//   kRows     [N, K] as checkpoints store it (f32, bf16 or f16): borrowed where it is mapped, or
//             owned when it was rounded or is on the mirror. The kernels widen it to f32; products
//             and sums are f32.
// The other layouts own their memory, in panels of 32 features; missing features are zeros:
//   kPanels   bf16 weights. For each pair of columns (2p, 2p + 1), the two numbers of each of the
//             32 features are adjacent:
//               panels[n / 32][k / 2][n % 32][k % 2] bf16
//             This is the order that AVX512-BF16 and AMX read (Intel's "VNNI" layout). Activations
//             are rounded to bf16, sums of products are f32; an odd last column is followed by
//             zeros.
//   kPanels8  8-bit codes: 64 bytes of codes per pair of columns, and one scale per feature and
//             group of columns. Activations are rounded to bf16; the products of a group with the
//             codes are summed in f32, and the sum is scaled, group after group.
//   kPanels4  4-bit codes: as kPanels8 with 32 bytes per pair. Each code is looked up in a
//             codebook of 16 numbers that are rounded to bf16: exact for integers; nf4's values
//             change by at most 0.00164 (0.00034 on average over normal weights) times the scale.
//   kPanelsE4M3  numbers of e4m3 (tensor/e4m3.h) in the place of kPanels8's codes. Each is a number
//             that bf16 holds, so that products have exactly the numbers and scales of the file.
//   kPanels8A8  8-bit codes with one scale per feature. Activations are quantised to 8 bits with
//             one scale per row, so sums of products are exact integers.
//               panels[n / 32][k / 4][n % 32][k % 4] u8 = code + 128
//   kPanels4A8  4-bit codes for activations of 8 bits; a group of columns has an integer step and
//             base. 64 bytes of codes per four columns; the kernels widen them to the numbers of
//             kPanels8A8: step * code + base.
// If a matrix of codes for activations of bf16 has offsets, one per feature and group, each is
// multiplied by the sum of the group's activations. Scales and offsets have 16 or 8 bits where that
// holds them exactly (NumberDTypes of tensor/quantised_matrix.h). If it has a column order, the
// activations are put into that order when they are rounded.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "backend/cpu_tier.h"
#include "kernels/weight.h"

namespace caption::kernels::cpu {

inline constexpr std::int64_t kPanelFeatures = 32;
// Maximum columns per group, so that the kernels' buffers have a fixed size; a longer group is cut
// into several with the same scale.
inline constexpr std::int64_t kMaxGroupColumns = 128;

struct CodeRows;
struct PanelGroups;
struct QuantisedArgs;
struct Tier;

class PackedWeight final : public WeightForm {
 public:
  enum class Layout { kRows, kPanels, kPanels8, kPanels4, kPanelsE4M3, kPanels8A8, kPanels4A8 };

  // Returns the form of a weight on the CPU or the mirror.
  static const PackedWeight& of(const Weight& weight) {
    return static_cast<const PackedWeight&>(weight.form());
  }

  PackedWeight() = default;
  // Borrows `rows` [N, K] as layout kRows.
  explicit PackedWeight(ConstView rows);
  // Owns `rows` [N, K] as layout kRows.
  explicit PackedWeight(Tensor rows);
  // The functions below place their result on the stream's device, which may be the mirror; they
  // read `rows` on the host.
  //
  // Packs `rows` [N, K] bf16, or f32 or f16, rounded to nearest, as kPanels.
  static PackedWeight pack_panels(Stream& stream, ConstView rows);
  // Packs a quantised matrix [N, K], which `rows` returns in parts, all in one format, as
  // kPanels8 (8-bit codes), kPanels4 (4-bit codes) or kPanelsE4M3.
  static PackedWeight pack_quantised(Stream& stream, std::int64_t num_rows,
                                     const QuantisedRows& rows);
  // Packs a matrix of 8-bit codes with one scale per row as kPanels8A8.
  static PackedWeight pack_8a8(Stream& stream, std::int64_t num_rows, const QuantisedRows& rows);
  // Packs a matrix of 4-bit codes with steps and bases as kPanels4A8.
  static PackedWeight pack_4a8(Stream& stream, std::int64_t num_rows, const QuantisedRows& rows);

  std::int64_t size_bytes() const override;
  bool rounds_input() const override { return layout_ != Layout::kRows; }
  bool is_borrowed() const override { return layout_ == Layout::kRows && panels_.empty(); }
  bool is_like(const WeightForm& other) const override;
  std::string describe() const override;

  Layout layout() const { return layout_; }
  std::int64_t num_features() const { return num_features_; }  // N
  std::int64_t num_columns() const { return num_columns_; }    // K

  // kRows only.
  ConstView rows() const { return rows_; }
  // [panels, ...] as documented above. kPanels8 and kPanelsE4M3 are [panels, pairs, 64] i8,
  // kPanels4 [panels, pairs, 32] u8, in the order of kernels/cpu/tier.h (panel8_position(),
  // panel4_position()); kPanels4A8 is [panels, quads, 64] u8 (quad4_position()).
  ConstView panels() const { return panels_.view(); }
  // kPanels8, kPanels4, kPanelsE4M3: [panels, groups, 32] f32, bf16, f16 or, as multiples of units,
  // i8; kPanels8A8, kPanels4A8: [panels, 32] f32.
  ConstView scales() const { return scales_.view(); }
  // kPanels8, kPanels4, kPanelsE4M3: the shape of scales, f32, bf16, f16 or, as multiples of the
  // scales or of units, i8; or empty when there are none.
  ConstView offsets() const { return offsets_.view(); }
  // With scales of i8: [panels, units, 32] f16, a unit for kUnitColumns columns; else empty.
  ConstView scale_units() const { return scale_units_.view(); }
  ConstView offset_units() const { return offset_units_.view(); }
  // kPanels4A8: [panels, groups, 2, 32] u8, steps and bases.
  ConstView steps() const { return steps_.view(); }
  // kPanels8, kPanels4, kPanelsE4M3: [K] i32, column k of the panels is column column_order()[k] of
  // the matrix; empty when the columns are in order.
  ConstView column_order() const { return column_order_.view(); }
  std::int64_t group_columns() const { return group_columns_; }
  // kPanels4, as the kernels use it.
  const std::array<BF16, 16>& codebook() const { return codebook_; }

  // The weights of a panel as Tier::panel8, panel4 and panel_e4m3 read them.
  QuantisedArgs panel_args(std::int64_t panel) const;

  // Writes row n as f32 [K]: the numbers of the matrix, with a codebook that is not rounded.
  void unpack_row(std::int64_t n, float* to) const;

 private:
  // Returns kPanels [num_features, num_columns] whose numbers are not set.
  static PackedWeight allocate_panels(Stream& stream, std::int64_t num_features,
                                      std::int64_t num_columns);
  // unpack_row() of a layout; unpack_codes() is that of kPanels8, kPanels4 and kPanelsE4M3.
  void unpack_stored(std::int64_t n, float* to) const;
  void unpack_bf16(std::int64_t n, float* to) const;
  void unpack_codes(std::int64_t n, float* to) const;
  void unpack_8a8(std::int64_t n, float* to) const;
  void unpack_4a8(std::int64_t n, float* to) const;
  // Allocates the scales and offsets of panels of rows as those of `like`.
  void allocate_numbers(Stream& stream, const QuantisedMatrix& like, std::int64_t num_panels);
  // Returns where those of a panel go whose matrix has `num_stored` groups.
  PanelGroups groups_of_panel(std::int64_t panel, std::int64_t num_stored);
  void set_codebook(const std::array<float, 16>& codebook);
  void set_column_order(Stream& stream, const ColumnOrder& order);
  // Packs the part of a matrix from panel `panel` on. Returns whether its scales, and numbers of
  // e4m3, are finite.
  bool pack_part(const Tier& tier, const QuantisedMatrix& part, std::int64_t panel);
  bool pack_blocks(const Tier& tier, const QuantisedMatrix& part, std::int64_t panel);
  // Returns whether the scales are finite, as far as they are read here.
  bool pack_groups_of_panel(const Tier& tier, const CodeRows& rows, std::int64_t panel);
  // Returns whether no code is a NaN.
  bool pack_panel(const Tier& tier, const CodeRows& rows, std::int64_t panel);
  void pack_panel_4a8(const Tier& tier, const CodeRows& rows, std::int64_t panel);

  Layout layout_ = Layout::kRows;
  ConstView rows_;
  Tensor panels_;  // with kRows it holds the rows if they are owned, else nothing
  Tensor scales_;
  Tensor offsets_;
  Tensor scale_units_;
  Tensor offset_units_;
  Tensor steps_;
  Tensor column_order_;
  ColumnOrder shared_order_;         // is_like() compares it: weights may share one order
  std::array<float, 16> numbers_{};  // the codebook before it is rounded
  std::array<BF16, 16> codebook_{};
  std::optional<int> first_code_;  // QuantisedArgs::first_code
  std::int64_t group_columns_ = 0;
  std::int64_t num_features_ = 0;
  std::int64_t num_columns_ = 0;
};

// Returns whether the tier's kernels are faster on panels of bf16 weights than on rows.
bool prefers_panels(CpuTier tier);

Weight to_weight(PackedWeight packed, Device device);

}  // namespace caption::kernels::cpu
