// Files that AutoAWQ, GPTQModel and AutoGPTQ packed, against the numbers that these libraries'
// own code makes of them (scripts/make_goldens_packed.py).
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "tensor/dtype.h"
#include "tests/weights/quantised_files.h"

namespace caption::weights {
namespace {

using namespace testing;

struct Case {
  const char* name;
  bool is_8_bit = false;
  std::int64_t group_columns = 0;
  bool has_offsets = false;
  bool has_column_order = false;
};
constexpr Case kCases[] = {
    {"awq_g32", false, 32, true},
    {"awq_g64", false, 64, true},
    {"awq_g128_symmetric", false, 128},
    {"gptqmodel_v1", false, 32, true},
    {"gptqmodel_v1_act_order", false, 32, true, true},
    {"gptqmodel_v1_g128_symmetric_act_order", false, 128, false, true},
    {"gptqmodel_v2_g64_act_order", false, 64, true, true},
    {"gptqmodel_v2_row", false, 72, true},
    {"gptqmodel_v1_short_group", false, 32, true, true},
    {"gptqmodel_8_bits_v1_act_order", true, 32, true, true},
    {"gptqmodel_8_bits_v1_symmetric", true, 32},
    {"gptqmodel_8_bits_v2", true, 128, true},
    {"gptqmodel_v1_part_of_word", false, 32, true},
    {"gptqmodel_v1_part_of_word_act_order", false, 32, true, true},
    {"gptqmodel_v1_part_of_word_symmetric", false, 32},
    {"gptqmodel_v2_part_of_word_row", false, 35, true},
    {"gptqmodel_8_bits_v1_part_of_word_act_order", true, 32, true, true},
    {"gptqmodel_8_bits_v2_part_of_word", true, 32, true},
    {"auto_gptq_act_order", false, 32, true, true},
    {"auto_gptq_zeros_of_0", false, 32, true},
    {"auto_gptq_8_bits_symmetric", true, 32},
};

std::filesystem::path golden(const std::string& name) { return quantised_golden("packed", name); }

// Whether a word of zeros has a field of so many bits that is all ones.
bool has_field_of_ones(QuantisedFiles& files, unsigned bits) {
  const std::span<const std::uint8_t> bytes = files.bytes_of("a.b.qzeros");
  for (const std::uint8_t byte : bytes) {
    if (bits == 8 ? byte == 0xFF : (byte & 15) == 15 || byte >> 4 == 15) return true;
  }
  return false;
}

// Reads a golden of GPTQModel with other text in the place of its meta.quantizer.
std::string compare_as_of(const std::string& name, const std::string& quantizer) {
  QuantisedFiles files(golden(name));
  files.replace_config("[\n    \"gptqmodel:7.7.0\"\n   ]", quantizer);
  const ExpectedWeights expected(golden(name));
  const auto source = files.open();
  const ConstView read = source->read(kCodedWeight, expected.weight().shape());
  return count_unequal_bits(read, expected.weight()) == 0 ? "equal" : "other numbers";
}

}  // namespace

TEST_SUITE_BEGIN("weights/packed_source");

// f32 holds scale * (code - zero) exactly, and so the library's f16 is that number rounded once.
TEST_CASE("decodes to the bits of the library that packed the file") {
  for (const Case& c : kCases) {
    CAPTURE(c.name);
    const ExpectedWeights expected(golden(c.name));
    const ConstView exact = expected.weight();
    const ConstView rounded = expected.weight("a.b.weight_f16");
    REQUIRE(rounded.dtype() == DType::kF16);
    REQUIRE(rounded.shape() == exact.shape());
    const auto source = open_source(golden(c.name));
    const ConstView read = source->read(kCodedWeight, exact.shape());
    CHECK(count_unequal_bits(read, exact) == 0);
    std::int64_t unequal = 0;
    for (std::int64_t i = 0; i < read.num_elements(); ++i) {
      const F16 value = to_f16(read.as<float>()[i]);
      if (std::memcmp(&value, rounded.as<F16>() + i, sizeof(value)) != 0) ++unequal;
    }
    CHECK(unequal == 0);
  }
}

TEST_CASE("codes of packed files stand for the same numbers, whichever rows are read") {
  for (const Case& c : kCases) {
    CAPTURE(c.name);
    const ExpectedWeights expected(golden(c.name));
    const Shape shape = expected.weight().shape();
    const auto source = open_source(golden(c.name));
    const std::optional<StoredCodes> codes = source->codes_of(kCodedWeight);
    REQUIRE(codes.has_value());
    CHECK(codes->layout.is_8_bit == c.is_8_bit);
    CHECK(codes->layout.group_columns == c.group_columns);
    CHECK(codes->layout.has_offsets == c.has_offsets);
    CHECK(codes->layout.has_column_order == c.has_column_order);
    std::int64_t unequal = 0;
    for (std::int64_t first = 0; first < shape[0];) {
      const std::int64_t count = std::min<std::int64_t>(first % 3 + 3, shape[0] - first);
      const QuantisedMatrix rows = source->read_codes(kCodedWeight, shape, first, count);
      for (std::int64_t n = 0; n < count; ++n) {
        for (std::int64_t k = 0; k < shape[1]; ++k) {
          const float wanted =
              expected.weight().as<float>()[(first + n) * shape[1] + rows.column_of(k)];
          if (std::bit_cast<std::uint32_t>(rows.value(n, k)) !=
              std::bit_cast<std::uint32_t>(wanted)) {
            ++unequal;
          }
        }
      }
      first += count;
    }
    CHECK(unequal == 0);
  }
}

TEST_CASE("borrows between the zeros of a word are restored for files of GPTQModel alone") {
  for (const char* const name : {"gptqmodel_v1", "gptqmodel_v1_act_order"}) {
    CAPTURE(std::string(name));
    QuantisedFiles files(golden(name));
    CHECK(has_field_of_ones(files, 4));
    // The library reads the first of its entries, in any case of letters, from version 0.9.0 on.
    for (const char* const quantizer :
         {R"("gptqmodel:7.7.0")", R"("GPTQModel:0.9.0")", R"(["gptqmodel:10"])",
          R"(["optimum:1.24.0", "gptqmodel:1.4.0-dev", "gptqmodel:0.8.1"])"}) {
      CAPTURE(std::string(quantizer));
      CHECK(compare_as_of(name, quantizer) == "equal");
    }
    for (const char* const quantizer :
         {R"("another:7.7.0")", R"("gptqmodel:0.8.1")", R"("gptqmodel")", R"("gptqmodel_x:7.7.0")",
          R"(["gptqmodel:0.8.1", "gptqmodel:1.4.0"])", "[]", "null"}) {
      CAPTURE(std::string(quantizer));
      CHECK(compare_as_of(name, quantizer) == "other numbers");
    }
  }
  QuantisedFiles auto_gptq(golden("auto_gptq_zeros_of_0"));
  CHECK(has_field_of_ones(auto_gptq, 4));
  // A symmetric file has no borrows.
  CHECK(compare_as_of("gptqmodel_v1_g128_symmetric_act_order", R"("another:1")") == "equal");
}

TEST_CASE("parts of words that do not fit the number of columns or rows are refused") {
  struct Change {
    const char* from;
    const char* to;
    const char* message;
  };
  // 37 rows and 44 columns: 6 words of codes, 5 of zeros.
  constexpr Change kChanges[] = {
      {R"("shape":[44])", R"("shape":[40])",
       "a.b.g_idx: data_offsets [0, 176] do not span the 160 bytes of [40] I32"},
      {R"("shape":[6,37])", R"("shape":[37,6])",
       "\"a.b.g_idx\" has 44 elements; one for each of 289 to 296 columns was expected, as "
       "a.b.qweight has 37 words for a row; download the file again, or quantise the model again"},
      {R"("shape":[2,5])", R"("shape":[5,2])",
       "\"a.b.qzeros\" has shape [5, 2]; [2, 5] was expected from its neighbours"},
      {R"("shape":[2,37])", R"("shape":[37,2])",
       "\"a.b.scales\" has shape [37, 2]; [2, 37] was expected from its neighbours"},
  };
  for (const Change& change : kChanges) {
    CAPTURE(std::string(change.to));
    QuantisedFiles files(golden("gptqmodel_v1_part_of_word"));
    files.replace_header(change.from, change.to);
    const std::string message = error_of_files(files, {37, 44}, ErrorCode::kBadModel);
    CHECK(contains_text(message, change.message));
    CHECK(contains_text(message, "model.safetensors"));
  }
  // Codes and zeros beyond the matrix are not read.
  for (const char* const name : {"gptqmodel_v1_part_of_word", "gptqmodel_v2_part_of_word_row",
                                 "gptqmodel_v1_part_of_word_symmetric"}) {
    CAPTURE(std::string(name));
    QuantisedFiles files(golden(name));
    const ExpectedWeights expected(golden(name));
    const Shape shape = expected.weight().shape();
    const std::span<std::uint8_t> codes = files.bytes_of("a.b.qweight");
    for (std::int64_t n = 0; n < shape[0]; ++n) {
      codes[codes.size() - 4 * static_cast<std::size_t>(n) - 1] ^= 0xF0;
    }
    files.bytes_of("a.b.qzeros").back() ^= 0xF0;
    const auto changed = files.open();
    CHECK(count_unequal_bits(changed->read(kCodedWeight, shape), expected.weight()) == 0);
    const std::optional<StoredCodes> codes_of = changed->codes_of(kCodedWeight);
    REQUIRE(codes_of.has_value());
    CHECK(codes_of->layout.has_offsets ==
          open_source(golden(name))->codes_of(kCodedWeight)->layout.has_offsets);
  }
}

TEST_SUITE_END();

}  // namespace caption::weights
