// kernels/cpu/tier.h: the inner loops that have one version per instruction set. All other CPU code
// is written once, on top of them.
//
// Files compiled with flags such as -mavx512f include this header, so it includes nothing but
// <cstdint> and headers without functions: the linker may keep their copy of an inline function of
// std, which other CPUs cannot run.
#pragma once

#include <cstdint>

#include "kernels/cpu/attention_tier.h"
#include "tensor/code_blocks.h"

namespace caption::kernels::cpu {

// Element type of the second operand; it is widened to f32 in registers.
enum class Element { kF32, kBF16, kF16, kI8 };
inline constexpr int kNumElements = 4;

// Row-major matrices; strides between rows in elements.
struct GemmArgs {
  const float* a = nullptr;
  std::int64_t a_stride = 0;
  const void* b = nullptr;
  std::int64_t b_stride = 0;
  float* c = nullptr;
  std::int64_t c_stride = 0;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
};
using Gemm = void (*)(const GemmArgs& args);

// The order of the activations of dense layers (kernels/cpu/row_order.h): rows of a_stride
// elements. With tiled rows, whole groups of kTileRows rows are in tiles: the first kTileBytes
// bytes of each row of the group, then the next of each, ...; the rest of the m rows is row after
// row. a_stride is then a multiple of kTileBytes bytes, and the rows are zeros from K to it.
inline constexpr std::int64_t kTileRows = 16;
inline constexpr std::int64_t kTileBytes = 64;

// Multiplies bf16 activations by panels of bf16 weights (kernels/cpu/packed_weight.h).
inline constexpr std::int64_t kPanelColumns = 32;
struct PanelArgs {
  const std::uint16_t* a = nullptr;  // [m, 2 * num_pairs] bf16, zeros from K on
  std::int64_t a_stride = 0;         // elements
  bool has_tiled_rows = false;       // only where the tier reads them
  const std::uint16_t* panels = nullptr;
  std::int64_t num_pairs = 0;
  std::int64_t num_panels = 0;
  float* c = nullptr;  // [m, num_panels * kPanelColumns]
  std::int64_t c_stride = 0;
  std::int64_t m = 0;
};

// Multiplies bf16 activations by one panel of quantised weights (kernels/cpu/packed_weight.h):
//   c[m, n] = sum over groups g of scales[g, n] * (sum over the columns of g of a * code)
//                                  + offsets[g, n] * a_sums[m, g]
// The sum over a group is computed first, then scaled, then its offset is added, group after group.
// Scales and offsets are widened to f32 in registers. Offsets of kI8 are multiples of the scales:
// the product of the two numbers, rounded to f32, is the offset. Scales of kI8 are multiples of
// units, numbers of F16 that kUnitPairs pairs of columns share, and so are their offsets, which are
// kI8 then; these products are exact.
inline constexpr std::int64_t kUnitPairs = 128;
struct QuantisedArgs {
  static constexpr int kNoFirstCode = 99;
  const std::uint16_t* a = nullptr;  // [m, 2 * num_pairs] bf16 in the tier's order, zeros from K on
  std::int64_t a_stride = 0;
  const float* a_sums = nullptr;  // [m, groups], needed with offsets
  std::int64_t a_sums_stride = 0;
  const std::uint8_t* codes = nullptr;      // [num_pairs, 64 or 32]
  const std::uint16_t* codebook = nullptr;  // 16 bf16, for 4-bit codes
  // Where the codebook counts up from an integer of [-16, 1], that integer; else kNoFirstCode.
  int first_code = kNoFirstCode;
  const void* scales = nullptr;           // [groups, kPanelColumns]
  Element scale_element = Element::kF32;  // or kBF16, kF16, kI8
  // [units, kPanelColumns] F16: with scales of kI8
  const std::uint16_t* scale_units = nullptr;
  const void* offsets = nullptr;                // [groups, kPanelColumns] or null
  const std::uint16_t* offset_units = nullptr;  // as scale_units, of the offsets
  Element offset_element = Element::kF32;       // or kBF16, kF16, kI8
  std::int64_t num_pairs = 0;
  std::int64_t group_pairs = 0;  // at most kMaxGroupPairs; the last group may be shorter
  float* c = nullptr;            // [m, kPanelColumns]
  std::int64_t c_stride = 0;
  std::int64_t m = 0;
};
inline constexpr std::int64_t kMaxGroupPairs = 64;

// Position of the code of feature n (of 32) and column c (of a pair) among the bytes of a pair.
// Static, so that each tier's file compiles a separate copy with its instruction set.
static constexpr std::int64_t panel8_position(std::int64_t n, std::int64_t c) { return 2 * n + c; }
// Position of the byte that holds the 4-bit code of feature n and column c: the low nibbles hold
// the codes of the first 16 features, the high nibbles those of the last 16.
static constexpr std::int64_t panel4_position(std::int64_t n, std::int64_t c) {
  return n % 16 * 2 + c;
}

// Multiplies signed 8-bit activations by one panel of unsigned 8-bit weights, exactly:
//   c[m, n] = sum_k a[m, k] * panel[k / 4][n][k % 4]
struct IntegerArgs {
  const std::int8_t* a = nullptr;  // [m, 4 * num_quads] in the tier's order, zeros from K on
  std::int64_t a_stride = 0;
  const std::uint8_t* panel = nullptr;
  std::int64_t num_quads = 0;
  std::int32_t* c = nullptr;  // [m, kPanelColumns]
  std::int64_t c_stride = 0;
  std::int64_t m = 0;
};

// Position of the byte that holds the 4-bit code of feature n and column c among the bytes of four
// columns: the low nibbles hold the codes of the first 16 features, the high nibbles those of the
// last 16.
static constexpr std::int64_t quad4_position(std::int64_t n, std::int64_t c) {
  return n % 16 * 4 + c;
}

// As IntegerArgs with a panel of 4-bit codes 0 .. 15 in groups of columns: the weight of 8 bits is
// steps[g, n] * code + bases[g, n], which is at most 255.
struct Integer4Args {
  const std::int8_t* a = nullptr;  // [m, 4 * num_quads] in the tier's order, zeros from K on
  std::int64_t a_stride = 0;
  // [m, groups]: the sums of a row's activations; only where the tier has needs_code_sums
  const std::int16_t* a_sums = nullptr;
  std::int64_t a_sums_stride = 0;
  const std::uint8_t* codes = nullptr;  // [num_quads, 2 * kPanelColumns]
  const std::uint8_t* steps = nullptr;  // [groups, 2, kPanelColumns]: steps, bases
  std::int64_t num_quads = 0;
  std::int64_t group_quads = 0;  // at most kMaxGroupQuads; the last group may be shorter
  std::int32_t* c = nullptr;     // [m, kPanelColumns]
  std::int64_t c_stride = 0;
  std::int64_t m = 0;
};
inline constexpr std::int64_t kMaxGroupQuads = 32;

// Packs the 32 rows of a panel of weights (kernels/cpu/packed_weight.h) side by side. Rows may
// begin at any byte; null rows, which follow the others, count as zeros, and so does what is
// missing of the last word.
struct PanelRowsArgs {
  const std::uint8_t* const* rows = nullptr;  // [kPanelColumns]
  std::int64_t length = 0;                    // a row's bytes, or its 4-bit codes
  void* to = nullptr;
  std::uint32_t flipped = 0;   // pack_dwords() only: each word xor this
  bool has_odd_first = false;  // pack_nibbles() only: the odd column is in the low half of a byte
};

// Scales of a panel's rows as a file has them, and offsets of kI8 made of 4-bit zeros:
//   to[g, n] = numbers[n * row_stride + g * group_stride]
//   offsets[g, n] = middle - zero of row n and group g
struct PanelScalesArgs {
  const void* numbers = nullptr;
  Element element = Element::kF32;  // or kBF16, kF16; also that of `to`
  std::int64_t row_stride = 0;      // elements; this or the other stride is 1
  std::int64_t group_stride = 0;
  std::int64_t num_rows = 0;  // at most kPanelColumns; those that are missing become zeros
  std::int64_t num_groups = 0;
  float largest = 0;                     // magnitude that a scale may have
  const std::uint32_t* zeros = nullptr;  // a word for eight rows, or null
  std::int64_t zero_stride = 0;          // words between groups
  // Nibble i of a word is that of row i, or of row {0, 2, 4, 6, 1, 3, 5, 7}[i].
  bool has_even_rows_first = false;
  std::int8_t middle = 0;
  void* to = nullptr;              // [num_groups, kPanelColumns]
  std::int8_t* offsets = nullptr;  // the same, with zeros
};

// 4-bit codes of whole panels in words as a file has them (CodeOrder).
struct PanelWordsArgs {
  const std::uint8_t* words = nullptr;
  std::int64_t stride_bytes = 0;  // between rows of words
  std::int64_t num_columns = 0;
  std::int64_t num_panels = 0;
  std::uint8_t* to = nullptr;  // the first panel
  std::int64_t panel_bytes = 0;
};

// The same, where column k of the panels is column order[k] of the words.
struct OrderedWordsArgs {
  PanelWordsArgs words;
  const std::int32_t* order = nullptr;  // [num_columns]
  // [num_panels, num_columns, kOrderedColumnBytes], which holds columns on their way: it should
  // stay in the processor's caches
  std::uint8_t* columns = nullptr;
  // Panels whose words follow these and are packed next. They are fetched.
  std::int64_t num_following = 0;
};
inline constexpr std::int64_t kOrderedColumnBytes = kPanelColumns / 2;

// The rows of a whole panel in blocks (CodeOrder::kBlocks).
struct PanelBlocksArgs {
  CodeBlocks blocks = CodeBlocks::kQ4_0;
  const std::uint8_t* const* rows = nullptr;  // [kPanelColumns]
  std::int64_t num_columns = 0;               // a multiple of 64, or of 256 where blocks have 256
  std::uint8_t* to = nullptr;
  // [groups of columns, kPanelColumns], in the dtypes of number_dtypes(blocks)
  // (tensor/quantised_matrix.h).
  void* scales = nullptr;
  void* offsets = nullptr;  // the same, where blocks have offsets
  // [units, kPanelColumns] F16, where these dtypes have units
  void* scale_units = nullptr;
  void* offset_units = nullptr;
};

// The scale of a row of activations quantised to 8-bit integers, x ~ scale * codes.
struct IntegerRow {
  float scale;
  std::int32_t sum;  // sum of the codes
};
// A row whose largest magnitude is smaller is quantised to zero: 127 / max could overflow.
inline constexpr float kSmallestMagnitude = 0x1p-100F;
inline constexpr std::int32_t kInfinityBits = 0x7F800000;

// y[m, n] = scale[n] * (x[m, n] + bias[n]), or with `add` y[m, n] + scale[n] * (x[m, n] + bias[n]).
// Sum, product and sum are rounded one after another.
struct BiasArgs {
  const float* x = nullptr;
  std::int64_t x_stride = 0;
  const float* bias = nullptr;
  const float* scale = nullptr;  // null means 1
  float* y = nullptr;
  std::int64_t y_stride = 0;
  std::int64_t m = 0;
  std::int64_t n = 0;
  bool add = false;
};

// Converts the sums of panel8a8 to f32:
//   y[m, n] = (sums[m, n] - 128 * rows[m].sum) * (rows[m].scale * scales[n])
struct IntegerScaleArgs {
  const std::int32_t* sums = nullptr;  // [m, kPanelColumns], dense
  const IntegerRow* rows = nullptr;    // [m]
  const float* scales = nullptr;       // [kPanelColumns]
  float* y = nullptr;
  std::int64_t y_stride = 0;
  std::int64_t m = 0;
};

// Arguments of a norm of one row (kernels/norm.h); weight and bias are f32; y may be x.
struct NormArgs {
  const float* x = nullptr;
  const float* weight = nullptr;
  const float* bias = nullptr;  // layer_norm only
  float eps = 0;
  float* y = nullptr;
  std::int64_t n = 0;
};
inline constexpr int kNormLanes = 16;

// Arguments of the rotation of one head (kernels/rope.h), whose two halves are rotated in place.
struct RotateArgs {
  float* low = nullptr;
  float* high = nullptr;
  const float* cosines = nullptr;
  const float* sines = nullptr;
  std::int64_t n = 0;  // elements of a half
};

struct SwishArgs {
  const float* x = nullptr;
  float beta = 1;
  const float* factor = nullptr;  // null means 1
  float* y = nullptr;             // may be x or factor
  std::int64_t n = 0;
};

// In each function an element of the result depends only on its inputs and on k (or n), never on
// the other elements computed with it; batch invariance relies on this. No member has a default, so
// that the compiler warns of a tier that leaves one out.
struct Tier {  // NOLINT(cppcoreguidelines-pro-type-member-init)
  // c[m, n] = sum_k a[m, k] * b[n, k], in interleaved partial sums over k, then a tree.
  Gemm dot[kNumElements];
  bool reads_tiled_rows;  // panel_gemm() also reads other rows
  bool needs_code_sums;   // panel4a8() reads a_sums
  // c = a * panels^T; every sum runs over the pairs of columns in ascending order.
  void (*panel_gemm)(const PanelArgs& args);
  void (*panel8)(const QuantisedArgs& args);
  void (*panel4)(const QuantisedArgs& args);
  void (*panel_e4m3)(const QuantisedArgs& args);  // codes are numbers of tensor/e4m3.h, none a NaN
  void (*panel8a8)(const IntegerArgs& args);
  void (*panel4a8)(const Integer4Args& args);
  // Rounds to nearest, ties to even.
  void (*to_bf16)(const float* x, std::uint16_t* y, std::int64_t n);
  // Numbers of kF32 or kF16 as to_bf16() of tensor/dtype.h rounds them; the same bits in every
  // tier.
  void (*round_numbers)(const void* x, Element element, std::uint16_t* y, std::int64_t n);
  // to[i * 32 + n] = word i of row n, of 4 and of 2 bytes.
  void (*pack_dwords)(const PanelRowsArgs& args);
  void (*pack_words)(const PanelRowsArgs& args);
  // As pack_words(), of numbers of e4m3. Returns whether none is a NaN.
  bool (*pack_e4m3)(const PanelRowsArgs& args);
  // Rows of 4-bit codes, of which the even column is in the low half of a byte: 32 bytes per pair
  // of columns in the order of panel4_position(), and 64 bytes per four columns in that of
  // quad4_position(). Missing columns are zeros.
  void (*pack_nibbles)(const PanelRowsArgs& args);
  void (*pack_nibble_quads)(const PanelRowsArgs& args);
  // From words and blocks to the order of panel4_position(), or of panel8_position() where the
  // codes have more than 4 bits. Null where the tier has none: the codes are then read in rows.
  //
  // Words of columns (the number of columns is a multiple of 8) and of rows (a multiple of 4).
  void (*pack_words_of_columns)(const PanelWordsArgs& args);
  void (*pack_words_of_rows)(const PanelWordsArgs& args);
  // Words of columns (the number of columns is a multiple of 8) in another order.
  void (*pack_ordered_words)(const OrderedWordsArgs& args);
  // Returns whether all scales and offsets are finite.
  bool (*pack_blocks)(const PanelBlocksArgs& args);
  // The same bits in every tier. Returns whether no scale is too large or a NaN; what is packed
  // counts for nothing if one is.
  bool (*pack_scales)(const PanelScalesArgs& args);
  // A thread that has packed calls it before other threads read what it packed. Called for many
  // panels together: it waits until the memory has them.
  void (*finish_packing)();
  // codes[i] = x[i] * (127 / max |x|), in f32, to the nearest integer, ties to even; the same bits
  // in every tier. A row with an infinity or a NaN gets the scale NaN and codes of zero.
  IntegerRow (*to_int8)(const float* x, std::int8_t* codes, std::int64_t n);
  // The functions from here to rotate() give the same bits in every tier.
  void (*scale_integers)(const IntegerScaleArgs& args);
  void (*add_bias)(const BiasArgs& args);
  // Sums are kNormLanes interleaved partial sums, then a tree.
  void (*rms_norm)(const NormArgs& args);
  void (*layer_norm)(const NormArgs& args);
  void (*rotate)(const RotateArgs& args);
  // x[i] = exp(x[i] - shift); returns the sum of the results. Requires x[i] <= shift.
  float (*exp_sum)(float* x, std::int64_t n, float shift);
  // y = x / (1 + exp(-beta * x)) * factor
  void (*swish)(const SwishArgs& args);
  // y = x / 2 * (1 + erf(x / sqrt(2))); y may be x
  void (*gelu)(const float* x, float* y, std::int64_t n);
  // y = x / (1 + exp(-2 * sqrt(2 / pi) * (x + 0.044715 * x^3))); y may be x
  void (*gelu_tanh)(const float* x, float* y, std::int64_t n);
  AttentionTier attention;
};

const Tier& reference_tier();
const Tier& avx2_tier();        // x86-64 only; the CPU must have AVX2, FMA, F16C
const Tier& avx512_tier();      // x86-64 only; the CPU must have AVX-512 F, BW, DQ, VL
const Tier& avx512bf16_tier();  // x86-64 only; the CPU must have those, AVX512-BF16, VBMI, VNNI
const Tier& amx_tier();         // x86-64 only; the CPU must have those, AMX-BF16 and AMX-INT8

// Reference implementations in plain loops, for tiers without SIMD versions of these functions.
void panel_gemm_reference(const PanelArgs& args);
void panel8_reference(const QuantisedArgs& args);
void panel4_reference(const QuantisedArgs& args);
void panel_e4m3_reference(const QuantisedArgs& args);
void panel8a8_reference(const IntegerArgs& args);
void panel4a8_reference(const Integer4Args& args);
void to_bf16_reference(const float* x, std::uint16_t* y, std::int64_t n);
void pack_dwords_reference(const PanelRowsArgs& args);
void pack_words_reference(const PanelRowsArgs& args);
bool pack_e4m3_reference(const PanelRowsArgs& args);
void pack_nibbles_reference(const PanelRowsArgs& args);
void pack_nibble_quads_reference(const PanelRowsArgs& args);
bool pack_scales_reference(const PanelScalesArgs& args);
void round_numbers_reference(const void* x, Element element, std::uint16_t* y, std::int64_t n);

// The reduction tree over partial sums, for all tiers. Static, so that each tier's file compiles a
// separate copy with its instruction set.
static inline float sum_of_lanes(float (&lanes)[kNormLanes]) {
  for (int width = kNormLanes / 2; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  return lanes[0];
}

}  // namespace caption::kernels::cpu
