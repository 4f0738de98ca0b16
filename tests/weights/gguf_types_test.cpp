// The values of every type, bit for bit those of gguf-py; the goldens are made by
// scripts/make_goldens_gguf.py.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "weights/ggml_type.h"
#include "weights/gguf_file.h"

namespace caption::weights {
namespace {

namespace fs = std::filesystem;

const fs::path kGoldens = CAPTION_SOURCE_DIR "/tests/golden/gguf";

struct Golden {
  std::string name;
  GgmlRows rows;
  std::vector<float> values;
};

// "types" has a tensor of each type; "k_blocks" has rows of several blocks of 256 columns.
constexpr const char* kGoldenNames[] = {"types", "k_blocks"};

GgufFile open_golden(const std::string& name) {
  return GgufFile::open(kGoldens / (name + ".gguf"));
}

std::vector<Golden> goldens(const GgufFile& file, const std::string& of = "types") {
  const JsonObject expected = JsonObject::open(kGoldens / "expected.json", ErrorCode::kBadModel);
  const std::string bytes = read_text_file(kGoldens / (of + ".f32"));
  std::vector<Golden> goldens;
  std::size_t at = 0;
  for (const JsonObject& type : expected.get_objects(of)) {
    const std::vector<std::int64_t> shape = type.get_ints("shape");
    Golden golden;
    golden.name = type.require_string("name");
    const GgufTensor* const tensor = file.find(golden.name);
    REQUIRE(tensor != nullptr);
    REQUIRE(tensor->rank == 2);
    CHECK(tensor->extents[0] == shape[0]);
    CHECK(tensor->extents[1] == shape[1]);
    CHECK(golden.name.starts_with(tensor->type->name));
    golden.rows = {.type = tensor->type->type,
                   .bytes = tensor->bytes,
                   .num_columns = shape[1],
                   .first = 0,
                   .count = shape[0]};
    golden.values.resize(static_cast<std::size_t>(shape[0] * shape[1]));
    REQUIRE(at + golden.values.size() * sizeof(float) <= bytes.size());
    std::memcpy(golden.values.data(), bytes.data() + at, golden.values.size() * sizeof(float));
    at += golden.values.size() * sizeof(float);
    goldens.push_back(std::move(golden));
  }
  CHECK(at == bytes.size());
  return goldens;
}

bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

// Returns the index of the first value with other bits, or -1.
std::int64_t first_difference(const float* a, const float* b, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (!same_bits(a[i], b[i])) return static_cast<std::int64_t>(i);
  }
  return -1;
}

TEST_SUITE("weights/ggml_type") {
  TEST_CASE("values have the bits of gguf-py's") {
    std::size_t num_tensors = 0;
    for (const char* const of : kGoldenNames) {
      const GgufFile file = open_golden(of);
      for (const Golden& golden : goldens(file, of)) {
        CAPTURE(golden.name);
        ++num_tensors;
        std::vector<float> values(golden.values.size());
        decode_rows(golden.rows, values.data());
        CHECK(first_difference(values.data(), golden.values.data(), values.size()) == -1);
      }
    }
    CHECK(num_tensors == 12 + 6);
  }

  TEST_CASE("a range of rows has the values of those rows") {
    for (const char* const of : kGoldenNames) {
      const GgufFile file = open_golden(of);
      for (const Golden& golden : goldens(file, of)) {
        CAPTURE(golden.name);
        const std::int64_t columns = golden.rows.num_columns;
        for (std::int64_t first = 0; first <= golden.rows.count; ++first) {
          GgmlRows rows = golden.rows;
          rows.first = first;
          rows.count = std::min<std::int64_t>(2, golden.rows.count - first);
          std::vector<float> values(static_cast<std::size_t>(rows.count * columns));
          decode_rows(rows, values.data());
          CHECK(first_difference(values.data(), golden.values.data() + first * columns,
                                 values.size()) == -1);
        }
      }
    }
  }

  TEST_CASE("codes, scales and offsets give exactly the values") {
    int num_tensors = 0;
    for (const char* const of : kGoldenNames) {
      const GgufFile file = open_golden(of);
      for (const Golden& golden : goldens(file, of)) {
        if (!code_layout_of(golden.rows.type)) continue;
        CAPTURE(golden.name);
        ++num_tensors;
        GgmlRows rows = golden.rows;
        rows.first = 1;
        rows.count = golden.rows.count - 1;
        const QuantisedMatrix matrix = codes_of_rows(rows);
        CHECK(matrix.num_columns == rows.num_columns);
        CHECK(matrix.group_columns == (rows.type == GgmlType::kQ6_K ? 16 : 32));
        REQUIRE(matrix.num_rows() == rows.count);
        std::int64_t num_different = 0;
        for (std::int64_t n = 0; n < rows.count; ++n) {
          for (std::int64_t k = 0; k < rows.num_columns; ++k) {
            const float value =
                golden.values[static_cast<std::size_t>((n + 1) * rows.num_columns + k)];
            num_different += matrix.value(n, k) == value ? 0 : 1;  // +0 equals -0
          }
        }
        CHECK(num_different == 0);
      }
    }
    CHECK(num_tensors == 9 + 6);
  }

  TEST_CASE("codes of 4 bits are those of the types of 4 bits") {
    const struct {
      GgmlType type;
      bool is_4_bit;
      bool has_offsets;
    } kRows[] = {
        {GgmlType::kQ8_0, false, false}, {GgmlType::kQ4_0, true, false},
        {GgmlType::kQ4_1, true, true},   {GgmlType::kQ5_0, false, false},
        {GgmlType::kQ5_1, false, true},  {GgmlType::kIQ4_NL, true, false},
        {GgmlType::kQ4_K, true, true},   {GgmlType::kQ5_K, false, true},
        {GgmlType::kQ6_K, false, false},
    };
    for (const auto& row : kRows) {
      const GgmlTypeTraits& traits = *find_ggml_type(static_cast<std::uint32_t>(row.type));
      CAPTURE(std::string(traits.name));
      const std::vector<std::byte> zeros(static_cast<std::size_t>(traits.block_bytes));
      const QuantisedMatrix matrix = codes_of_rows({.type = row.type,
                                                    .bytes = zeros,
                                                    .num_columns = traits.block_elements,
                                                    .first = 0,
                                                    .count = 1});
      CHECK(matrix.is_4_bit() == row.is_4_bit);
      CHECK(matrix.offsets.empty() != row.has_offsets);
      const CodeLayout layout = code_layout_of(row.type).value();
      CHECK(layout.is_8_bit != row.is_4_bit);
      CHECK(layout.has_offsets == row.has_offsets);
      CHECK(layout.group_columns == matrix.group_columns);
      CHECK(!layout.has_column_order);
      CHECK(layout.numbers == matrix.number_dtypes);
      const DType numbers = traits.block_elements == 32 ? DType::kF16 : DType::kI8;
      CHECK(layout.numbers == NumberDTypes{.scales = numbers, .offsets = numbers});
    }
    for (const GgmlType type : {GgmlType::kF32, GgmlType::kF16, GgmlType::kBF16}) {
      CHECK(!code_layout_of(type));
    }
  }

  TEST_CASE("a scale that is no finite number is decoded but has no codes") {
    constexpr std::uint16_t kNotFinite[] = {0x7C00, 0xFC00, 0x7E01};
    for (const std::uint16_t bits : kNotFinite) {
      std::vector<std::byte> block(18);
      std::memcpy(block.data(), &bits, sizeof(bits));
      const GgmlRows rows = {
          .type = GgmlType::kQ4_0, .bytes = block, .num_columns = 32, .first = 0, .count = 1};
      float values[32];
      decode_rows(rows, values);
      CHECK(!(std::abs(values[0]) <= std::numeric_limits<float>::max()));
      CHECK_THROWS_WITH_AS(codes_of_rows(rows),
                           "a weight is not a finite number; download the file again", Error);
    }
  }

  TEST_CASE("rows outside the bytes are a bug of the caller") {
    const std::vector<std::byte> block(34);
    float values[64];
    const GgmlRows good = {
        .type = GgmlType::kQ8_0, .bytes = block, .num_columns = 32, .first = 0, .count = 1};
    CHECK_NOTHROW(decode_rows(good, values));
    for (const auto& [first, count, columns] : {std::array<std::int64_t, 3>{0, 2, 32},
                                                {1, 1, 32},
                                                {-1, 1, 32},
                                                {0, -1, 32},
                                                {0, 1, 33},
                                                {0, 1, 0},
                                                {0, 1, 64}}) {
      GgmlRows rows = good;
      rows.first = first;
      rows.count = count;
      rows.num_columns = columns;
      CHECK_THROWS_AS(decode_rows(rows, values), Error);
      CHECK_THROWS_AS(codes_of_rows(rows), Error);
    }
    GgmlRows other = good;
    other.type = static_cast<GgmlType>(10);  // Q2_K
    CHECK_THROWS_AS(decode_rows(other, values), Error);
    CHECK(!find_ggml_type(10)->is_decoded);
    CHECK(find_ggml_type(4) == nullptr);
    CHECK(find_ggml_type(0xFFFFFFFFu) == nullptr);
  }
}

}  // namespace
}  // namespace caption::weights
