#include "weights/ggml_type.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>

#include "base/error.h"
#include "weights/internal/ggml_blocks.h"

namespace caption::weights {
namespace {

constexpr std::uint32_t number_of(GgmlType type) { return static_cast<std::uint32_t>(type); }

struct Listed {
  std::uint32_t number;
  std::string_view name;
  std::int64_t block_elements;
  std::int64_t block_bytes;
  bool is_decoded;
};

constexpr Listed kListed[] = {
    {0, "F32", 1, 4, true},          {1, "F16", 1, 2, true},
    {2, "Q4_0", 32, 18, true},       {3, "Q4_1", 32, 20, true},
    {6, "Q5_0", 32, 22, true},       {7, "Q5_1", 32, 24, true},
    {8, "Q8_0", 32, 34, true},       {9, "Q8_1", 32, 40, false},
    {10, "Q2_K", 256, 84, false},    {11, "Q3_K", 256, 110, false},
    {12, "Q4_K", 256, 144, true},    {13, "Q5_K", 256, 176, true},
    {14, "Q6_K", 256, 210, true},    {15, "Q8_K", 256, 292, false},
    {16, "IQ2_XXS", 256, 66, false}, {17, "IQ2_XS", 256, 74, false},
    {18, "IQ3_XXS", 256, 98, false}, {19, "IQ1_S", 256, 50, false},
    {20, "IQ4_NL", 32, 18, true},    {21, "IQ3_S", 256, 110, false},
    {22, "IQ2_S", 256, 82, false},   {23, "IQ4_XS", 256, 136, false},
    {24, "I8", 1, 1, false},         {25, "I16", 1, 2, false},
    {26, "I32", 1, 4, false},        {27, "I64", 1, 8, false},
    {28, "F64", 1, 8, false},        {29, "IQ1_M", 256, 56, false},
    {30, "BF16", 1, 2, true},        {34, "TQ1_0", 256, 54, false},
    {35, "TQ2_0", 256, 66, false},   {39, "MXFP4", 32, 17, false},
    {40, "NVFP4", 64, 36, false},    {41, "Q1_0", 128, 18, false},
};

constexpr auto kTraits = [] {
  std::array<GgmlTypeTraits, std::size(kListed)> traits{};
  for (std::size_t i = 0; i < traits.size(); ++i) {
    const Listed& listed = kListed[i];
    traits[i] = {.type = static_cast<GgmlType>(listed.number),
                 .name = listed.name,
                 .block_elements = listed.block_elements,
                 .block_bytes = listed.block_bytes,
                 .is_decoded = listed.is_decoded};
  }
  return traits;
}();

// Where the next block of a matrix goes; offsets may be null, and so may units.
struct BlockPlace {
  std::uint8_t* codes;
  float* scales;
  float* offsets;
  float* scale_units;
  float* offset_units;
};

// Writes the scales and offsets of a block's groups and moves the place behind them.
template <std::int64_t kGroups, bool kHasOffsets>
void store_groups(const Block& block, BlockPlace& place) {
  // A number that is not finite has all bits of the exponent. All are looked at: no branches.
  constexpr std::uint32_t kExponent = 0x7F800000;
  std::uint32_t num_bad = 0;
  const auto store = [&](float number, float& to) {
    num_bad += (std::bit_cast<std::uint32_t>(number) & kExponent) == kExponent ? 1 : 0;
    to = number;
  };
  for (std::size_t g = 0; g < kGroups; ++g) {
    store(block.scales[g], place.scales[g]);
    if constexpr (kHasOffsets) store(block.offsets[g], place.offsets[g]);
  }
  if (num_bad != 0)
    throw Error(ErrorCode::kBadModel, "a weight is not a finite number; download the file again");
  place.scales += kGroups;
  if constexpr (kHasOffsets) place.offsets += kGroups;
  if constexpr (kGroups > 1) *place.scale_units++ = block.scale_unit;
  if constexpr (kGroups > 1 && kHasOffsets) *place.offset_units++ = block.offset_unit;
}

// Stores blocks of 8-bit codes, which are `block_bytes` apart and which kUnpack unpacks.
template <auto kUnpack, std::int64_t kElements, std::int64_t kGroups, bool kHasOffsets>
void store_bytes(std::span<const std::byte> blocks, std::int64_t block_bytes, BlockPlace place) {
  const auto* from = reinterpret_cast<const std::uint8_t*>(blocks.data());
  Block block{};
  for (std::int64_t left = std::ssize(blocks); left > 0; left -= block_bytes, from += block_bytes) {
    kUnpack(from, &block);
    store_groups<kGroups, kHasOffsets>(block, place);
    std::memcpy(place.codes, block.codes.data(), static_cast<std::size_t>(kElements));
    place.codes += kElements;
  }
}

// Stores blocks of 4-bit codes, whose nibbles begin at byte kNibblesAt and whose scales kReadScales
// reads.
template <auto kReadScales, std::int64_t kElements, std::int64_t kGroups, bool kHasOffsets,
          std::int64_t kNibblesAt>
void store_nibbles(std::span<const std::byte> blocks, std::int64_t block_bytes, BlockPlace place) {
  const auto* from = reinterpret_cast<const std::uint8_t*>(blocks.data());
  Block block{};
  for (std::int64_t left = std::ssize(blocks); left > 0; left -= block_bytes, from += block_bytes) {
    kReadScales(from, &block);
    store_groups<kGroups, kHasOffsets>(block, place);
    if constexpr (kElements == 32) {
      pair_nibbles_16(from + kNibblesAt, place.codes);
    } else {
      for (std::int64_t i = 0; i < kElements / 2; i += 32) {
        pair_nibbles_32(from + kNibblesAt + i, place.codes + i);
      }
    }
    place.codes += kElements / 2;
  }
}

using Table = std::array<std::int8_t, 16>;
constexpr Table kSigned = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
constexpr Table kUnsigned = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
constexpr Table kNonLinear = {-127, -104, -83, -65, -49, -35, -22, -10,
                              1,    13,   25,  38,  53,  69,  89,  113};

struct Packing {
  GgmlType type;
  void (*unpack)(const std::uint8_t* bytes, Block* block);
  // Writes all blocks as codes, scales and offsets. Throws Error(kBadModel).
  void (*store)(std::span<const std::byte> blocks, std::int64_t block_bytes, BlockPlace place);
  std::int64_t group_elements;
  bool has_offsets;
  const Table* table;  // values of 4-bit codes; nullptr when the codes are the values
  CodeBlocks blocks;
};

constexpr Packing kPackings[] = {
    {GgmlType::kQ8_0, unpack_q8_0, store_bytes<unpack_q8_0, 32, 1, false>, 32, false, nullptr,
     CodeBlocks::kQ8_0},
    {GgmlType::kQ4_0, unpack_4_bit, store_nibbles<read_scale, 32, 1, false, 2>, 32, false, &kSigned,
     CodeBlocks::kQ4_0},
    {GgmlType::kQ4_1, unpack_q4_1, store_nibbles<read_scale_and_offset, 32, 1, true, 4>, 32, true,
     &kUnsigned, CodeBlocks::kQ4_1},
    {GgmlType::kQ5_0, unpack_q5_0, store_bytes<unpack_q5_0, 32, 1, false>, 32, false, nullptr,
     CodeBlocks::kQ5_0},
    {GgmlType::kQ5_1, unpack_q5_1, store_bytes<unpack_q5_1, 32, 1, true>, 32, true, nullptr,
     CodeBlocks::kQ5_1},
    {GgmlType::kIQ4_NL, unpack_4_bit, store_nibbles<read_scale, 32, 1, false, 2>, 32, false,
     &kNonLinear, CodeBlocks::kQ4_0},
    {GgmlType::kQ4_K, unpack_q4_k, store_nibbles<unpack_k_scales, 256, 8, true, 16>, 32, true,
     &kUnsigned, CodeBlocks::kQ4_K},
    {GgmlType::kQ5_K, unpack_q5_k, store_bytes<unpack_q5_k, 256, 8, true>, 32, true, nullptr,
     CodeBlocks::kQ5_K},
    {GgmlType::kQ6_K, unpack_q6_k, store_bytes<unpack_q6_k, 256, 16, false>, 16, false, nullptr,
     CodeBlocks::kQ6_K},
};

const Packing* find_packing(GgmlType type) {
  const auto* const found =
      std::find_if(std::begin(kPackings), std::end(kPackings),
                   [&](const Packing& packing) { return packing.type == type; });
  return found == std::end(kPackings) ? nullptr : found;
}

// Returns the bytes of the rows.
std::span<const std::byte> checked_bytes(const GgmlRows& rows, const GgmlTypeTraits& traits) {
  CAPTION_CHECK(rows.num_columns > 0 && rows.num_columns % traits.block_elements == 0,
                "rows of " + std::to_string(rows.num_columns) + " columns are no whole blocks of " +
                    std::string(traits.name));
  const std::int64_t row_bytes = rows.num_columns / traits.block_elements * traits.block_bytes;
  const std::int64_t num_rows = std::ssize(rows.bytes) / row_bytes;
  CAPTION_CHECK(rows.first >= 0 && rows.count >= 0 && rows.first <= num_rows &&
                    rows.count <= num_rows - rows.first,
                "rows " + std::to_string(rows.first) + " + " + std::to_string(rows.count) + " of " +
                    std::to_string(num_rows));
  return rows.bytes.subspan(static_cast<std::size_t>(rows.first * row_bytes),
                            static_cast<std::size_t>(rows.count * row_bytes));
}

template <class T>
void widen(std::span<const std::byte> bytes, float* values) {
  for (std::size_t i = 0; i < bytes.size() / sizeof(T); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    values[i] = to_float(value);
  }
}

void decode_block(const Packing& packing, const Block& block, std::int64_t elements,
                  float* values) {
  for (std::int64_t begin = 0, g = 0; begin < elements; begin += packing.group_elements, ++g) {
    const float scale = block.scales[static_cast<std::size_t>(g)];
    const float offset = block.offsets[static_cast<std::size_t>(g)];
    for (std::int64_t i = begin; i < begin + packing.group_elements; ++i) {
      const int code = block.codes[static_cast<std::size_t>(i)];
      const int number = packing.table == nullptr ? code : (*packing.table)[code];
      const float product = scale * static_cast<float>(number);
      values[i] = packing.has_offsets ? product + offset : product;
    }
  }
}

float* floats_of(Tensor& tensor) { return tensor.empty() ? nullptr : tensor.as<float>(); }

}  // namespace

const GgmlTypeTraits* find_ggml_type(std::uint32_t number) {
  const auto* const found =
      std::find_if(kTraits.begin(), kTraits.end(),
                   [&](const GgmlTypeTraits& traits) { return number_of(traits.type) == number; });
  return found == kTraits.end() ? nullptr : found;
}

void decode_rows(const GgmlRows& rows, float* values) {
  const GgmlTypeTraits* const traits = find_ggml_type(number_of(rows.type));
  CAPTION_CHECK(traits != nullptr && traits->is_decoded,
                "decode_rows: type " + std::to_string(number_of(rows.type)));
  const std::span<const std::byte> bytes = checked_bytes(rows, *traits);
  switch (rows.type) {
    case GgmlType::kF32: return widen<float>(bytes, values);
    case GgmlType::kF16: return widen<F16>(bytes, values);
    case GgmlType::kBF16: return widen<BF16>(bytes, values);
    default: break;
  }
  const Packing& packing = *find_packing(rows.type);
  const auto* const begin = reinterpret_cast<const std::uint8_t*>(bytes.data());
  const std::int64_t num_blocks = std::ssize(bytes) / traits->block_bytes;
  Block block{};
  for (std::int64_t b = 0; b < num_blocks; ++b) {
    packing.unpack(begin + b * traits->block_bytes, &block);
    decode_block(packing, block, traits->block_elements, values + b * traits->block_elements);
  }
}

std::optional<CodeLayout> code_layout_of(GgmlType type) {
  const Packing* const packing = find_packing(type);
  if (packing == nullptr) return std::nullopt;
  return CodeLayout{.is_8_bit = packing->table == nullptr,
                    .group_columns = packing->group_elements,
                    .has_offsets = packing->has_offsets,
                    .numbers = number_dtypes(packing->blocks)};
}

std::optional<std::array<float, 16>> codebook_of(GgmlType type) {
  const Packing* const packing = find_packing(type);
  if (packing == nullptr || packing->table == nullptr) return std::nullopt;
  std::array<float, 16> codebook{};
  std::copy(packing->table->begin(), packing->table->end(), codebook.begin());
  return codebook;
}

std::optional<CodeBlocks> code_blocks_of(GgmlType type) {
  const Packing* const packing = find_packing(type);
  if (packing == nullptr) return std::nullopt;
  return packing->blocks;
}

QuantisedMatrix codes_of_rows(const GgmlRows& rows) {
  const Packing* const packing = find_packing(rows.type);
  CAPTION_CHECK(packing != nullptr, "codes_of_rows: type " + std::to_string(number_of(rows.type)));
  const GgmlTypeTraits& traits = *find_ggml_type(number_of(rows.type));
  const std::span<const std::byte> bytes = checked_bytes(rows, traits);
  QuantisedMatrix matrix;
  matrix.num_columns = rows.num_columns;
  matrix.group_columns = packing->group_elements;
  matrix.number_dtypes = number_dtypes(packing->blocks);
  const bool is_4_bit = packing->table != nullptr;
  matrix.codes = is_4_bit ? Tensor(DType::kU8, {rows.count, rows.num_columns / 2})
                          : Tensor(DType::kI8, {rows.count, rows.num_columns});
  matrix.scales = Tensor(DType::kF32, {rows.count, matrix.num_groups()});
  if (packing->has_offsets) matrix.offsets = Tensor(DType::kF32, matrix.scales.shape());
  if (matrix.number_dtypes.has_units()) {
    const Shape units = {rows.count, rows.num_columns / kUnitColumns};
    matrix.scale_units = Tensor(DType::kF32, units);
    if (packing->has_offsets) matrix.offset_units = Tensor(DType::kF32, units);
  }
  if (is_4_bit) matrix.codebook = *codebook_of(rows.type);
  packing->store(bytes, traits.block_bytes,
                 {.codes = static_cast<std::uint8_t*>(matrix.codes.view().raw()),
                  .scales = matrix.scales.as<float>(),
                  .offsets = floats_of(matrix.offsets),
                  .scale_units = floats_of(matrix.scale_units),
                  .offset_units = floats_of(matrix.offset_units)});
  return matrix;
}

}  // namespace caption::weights
