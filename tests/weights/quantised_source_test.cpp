// Quantised checkpoints; the goldens are made by scripts/make_goldens_quantised.py, mostly with the
// libraries that define the formats.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/weights/quantised_files.h"

namespace caption::weights {
namespace {

namespace fs = std::filesystem;

using namespace testing;

constexpr const char* kWeight = kCodedWeight;

struct Case {
  const char* name;
  const char* method;
  MatrixFormat format;
  bool is_8_bit = false;
  std::int64_t group_columns = 0;
  bool has_offsets = false;
  bool has_column_order = false;
};
constexpr Case kCases[] = {
    {"awq_g32", "awq", MatrixFormat::kAwq, false, 32, true},
    {"awq_g64_symmetric", "awq", MatrixFormat::kAwq, false, 64},
    {"awq_g128_bf16", "awq", MatrixFormat::kAwq, false, 128, true},
    {"awq_row", "awq", MatrixFormat::kAwq, false, 75, true},
    {"gptq_v1", "gptq", MatrixFormat::kAwq, false, 32, true},
    {"gptq_v1_symmetric_act_order", "gptq", MatrixFormat::kAwq, false, 32, false, true},
    {"gptq_v2_act_order_short_group", "gptq", MatrixFormat::kAwq, false, 32, true, true},
    {"gptq_no_g_idx", "gptq", MatrixFormat::kAwq, false, 32, true},
    {"gptq_row", "gptq", MatrixFormat::kAwq, false, 72},
    {"gptq_8_bits_v1_act_order", "gptq", MatrixFormat::kInt8, true, 32, true, true},
    {"gptq_8_bits_v2", "gptq", MatrixFormat::kInt8, true, 128, true},
    {"nf4", "nf4", MatrixFormat::kNf4, false, 64},
    {"nf4_double", "nf4", MatrixFormat::kNf4Double, false, 64},
    {"nf4_across_rows", "nf4", MatrixFormat::kNf4, false, 16},
    {"fp4", "fp4", MatrixFormat::kNf4, false, 32},
    {"fp4_double", "fp4", MatrixFormat::kNf4Double, false, 64},
};
// Decoded only, or with codes that stand for slightly other numbers.
constexpr const char* kDecodedCases[] = {"nf4_odd", "llm_int8"};

std::vector<std::string> all_cases() {
  std::vector<std::string> names;
  for (const Case& c : kCases) names.emplace_back(c.name);
  names.insert(names.end(), std::begin(kDecodedCases), std::end(kDecodedCases));
  return names;
}

fs::path golden(const std::string& name) { return quantised_golden("quantised", name); }

}  // namespace

TEST_SUITE_BEGIN("weights/quantised_source");

TEST_CASE("decodes to the bits of the library that defines the format") {
  for (const std::string& name : all_cases()) {
    CAPTURE(name);
    const ExpectedWeights expected(golden(name));
    const auto source = open_source(golden(name));
    REQUIRE(source->has(kWeight));
    CHECK(count_unequal_bits(source->read(kWeight, expected.weight().shape()), expected.weight()) ==
          0);
    source->release(kWeight);
    // A second time, after its pages were released.
    CHECK(count_unequal_bits(source->read(kWeight, expected.weight().shape()), expected.weight()) ==
          0);
  }
}

TEST_CASE("its codes stand for the same numbers, whichever rows are read") {
  for (const Case& c : kCases) {
    CAPTURE(c.name);
    const ExpectedWeights expected(golden(c.name));
    const Shape shape = expected.weight().shape();
    const auto source = open_source(golden(c.name));
    std::int64_t unequal = 0;
    for (std::int64_t first = 0; first < shape[0];) {
      const std::int64_t count = std::min<std::int64_t>(first % 3 + 3, shape[0] - first);
      const QuantisedMatrix rows = source->read_codes(kWeight, shape, first, count);
      REQUIRE(rows.num_rows() == count);
      REQUIRE(rows.num_columns == shape[1]);
      REQUIRE(rows.group_columns == c.group_columns);
      REQUIRE((rows.column_order != nullptr) == c.has_column_order);
      REQUIRE(rows.number_dtypes == source->codes_of(kWeight)->layout.numbers);
      for (std::int64_t n = 0; n < count; ++n) {
        for (std::int64_t k = 0; k < shape[1]; ++k) {
          const float value = rows.value(n, k);
          const float wanted =
              expected.weight().as<float>()[(first + n) * shape[1] + rows.column_of(k)];
          if (std::bit_cast<std::uint32_t>(value) != std::bit_cast<std::uint32_t>(wanted))
            ++unequal;
        }
      }
      first += count;
    }
    CHECK(unequal == 0);
  }
}

TEST_CASE("says how a tensor is held") {
  for (const Case& c : kCases) {
    CAPTURE(c.name);
    const auto source = open_source(golden(c.name));
    const std::optional<StoredCodes> codes = source->codes_of(kWeight);
    REQUIRE(codes.has_value());
    CHECK(codes->method == c.method);
    CHECK(codes->format == c.format);
    CHECK(codes->layout.is_8_bit == c.is_8_bit);
    CHECK(codes->layout.group_columns == c.group_columns);
    CHECK(codes->layout.has_offsets == c.has_offsets);
    CHECK(codes->layout.has_column_order == c.has_column_order);
    const bool has_zeros = codes->method == "awq" || codes->method == "gptq";
    const DType of_file = std::string(c.name) == "awq_g128_bf16" ? DType::kBF16 : DType::kF16;
    const NumberDTypes numbers = codes->layout.numbers;
    CHECK(numbers.scales == (has_zeros ? of_file : DType::kF32));
    CHECK(numbers.offsets == (has_zeros && !c.is_8_bit ? DType::kI8 : DType::kF32));
    CHECK_FALSE(source->codes_of("a.b.bias").has_value());
    CHECK(source->has("a.b.bias"));
    for (const char* const part : {"qweight", "scales", "weight.absmax", "weight.quant_map"}) {
      CHECK_FALSE(source->has(std::string("a.b.") + part));
    }
  }
}

TEST_CASE("LLM.int8() is held with a scale per row, within three units of the last place") {
  const ExpectedWeights expected(golden("llm_int8"));
  const Shape shape = expected.weight().shape();
  const auto source = open_source(golden("llm_int8"));
  const std::optional<StoredCodes> codes = source->codes_of(kWeight);
  REQUIRE(codes.has_value());
  CHECK(codes->method == "llm.int8");
  CHECK(codes->format == MatrixFormat::kInt8);
  const QuantisedMatrix matrix = source->read_codes(kWeight, shape, 0, shape[0]);
  CHECK(matrix.num_groups() == 1);
  for (std::int64_t n = 0; n < shape[0]; ++n) {
    for (std::int64_t k = 0; k < shape[1]; ++k) {
      const float wanted = expected.weight().as<float>()[n * shape[1] + k];
      CHECK(std::abs(matrix.value(n, k) - wanted) <= 3 * 0x1p-23F * std::abs(wanted));
    }
  }
}

TEST_CASE("a matrix of an odd number of columns in blocks across rows has no codes") {
  CHECK_FALSE(open_source(golden("nf4_odd"))->codes_of(kWeight).has_value());
}

TEST_CASE("a configuration that this build does not read is refused by name") {
  struct Change {
    const char* name;
    const char* from;
    const char* to;
    const char* message;
  };
  constexpr Change kChanges[] = {
      {"awq_g32", "\"awq\"", "\"exl2\"",
       "; run another checkpoint of the model, or make one with quantize"},
      {"awq_g32", "\"gemm\"", "\"gemv\"",
       "version \"gemv\" is not read by this build; gemm and GEMM are"},
      {"awq_g32", "\"gemm\"", "\"marlin\"", "version \"marlin\""},
      {"awq_g32", "\"bits\": 4", "\"bits\": 3", "AWQ with 3 bits"},
      {"awq_g32", "\"group_size\": 32", "\"group_size\": 33", "a group of 33 columns"},
      {"awq_g32", "\"zero_point\"", "\"rotation\"", "\"rotation\" is not known to this build"},
      {"gptq_v1", "\"bits\": 4", "\"bits\": 3", "GPTQ with 3 bits"},
      {"gptq_v1", "\"bits\": 4", "\"bits\": 2", "GPTQ with 2 bits"},
      {"gptq_v1", "\"checkpoint_format\": \"gptq\"", "\"checkpoint_format\": \"marlin\"",
       "checkpoint_format \"marlin\""},
      {"gptq_v1", "\"int32\"", "\"int16\"", "pack_dtype \"int16\""},
      {"nf4", "\"llm_int8_threshold\"", "\"llm_int8_threshol_\"", "\"llm_int8_threshol_\""},
      {"gptq_8_bits_v2", "\"meta\"", "\"mota\"", "\"mota\" is not known to this build"},
  };
  for (const Change& change : kChanges) {
    CAPTURE(change.message);
    QuantisedFiles files(golden(change.name));
    files.replace_config(change.from, change.to);
    CHECK(contains_text(error_of_files(files, {40, 96}, ErrorCode::kUnavailable), change.message));
  }
}

TEST_CASE("tensors that do not fit each other are refused with file and tensor") {
  struct Change {
    const char* name;
    const char* from;
    const char* to;
    const char* message;
  };
  constexpr Change kChanges[] = {
      {"awq_g32", "a.b.qzeros", "a.b.qzeroz", "\"a.b.qzeros\" is missing"},
      {"awq_g32", "a.b.scales", "a.b.scalez",
       "\"a.b.scales\" is missing beside the others of its module; download the file again, or "
       "quantise the model again"},
      {"gptq_v1",
       R"("pt"},"a.b.bias":{"dtype":"F32","shape":[40],"data_offsets":[0,160]},"a.b.g_idx")",
       R"("p"},"a.b.bias":{"dtype":"F32","shape":[40],"data_offsets":[0,160]},"a.b.weight")",
       "holds \"a.b.weight\" both as numbers and as codes (\"a.b.qweight\")"},
      {"awq_g32", "\"shape\":[3,40]", "\"shape\":[40,3]",
       "\"a.b.scales\" has shape [40, 3]; [3, 40] was expected from its neighbours; download the "
       "file again, or"},
      {"awq_g32", "\"F16\",\"shape\":[3,40]", "\"I16\",\"shape\":[3,40]", "has dtype I16"},
      {"gptq_v1", "\"shape\":[3,5]", "\"shape\":[5,3]", "\"a.b.qzeros\" has shape [5, 3]"},
      {"nf4", "a.b.weight.absmax", "a.b.weight.absmix", "\"a.b.weight.absmax\" is missing"},
      {"gptq_v1", "a.b.qweight", "a.b.qweighs", "holds no weight of this format"},
      {"llm_int8", "a.b.SCB", "a.b.SCA",
       "tensor \"a.b.weight\" has dtype I8 and no scale: \"a.b.SCB\" is missing"},
      {"nf4", "bitsandbytes__nf4", "bitsandbytes__nf3",
       "tensor \"a.b.weight\" has dtype U8 and no scale: "
       "\"a.b.weight.quant_state.bitsandbytes__nf4\" or "},
      {"gptq_v1", "\"shape\":[12,40]", "\"shape\":[40,12]",
       "\"a.b.g_idx\" has 96 elements; one for each of 313 to 320 columns"},
  };
  for (const Change& change : kChanges) {
    CAPTURE(change.from);
    QuantisedFiles files(golden(change.name));
    files.replace_header(change.from, change.to);
    const std::string message = error_of_files(files, {40, 96}, ErrorCode::kBadModel);
    CHECK(contains_text(message, change.message));
    CHECK(contains_text(message, "quantised_source"));
  }
}

TEST_CASE("a group outside the scales, and groups of unequal sizes, are refused") {
  QuantisedFiles outside(golden("gptq_v1"));
  outside.bytes_of("a.b.g_idx")[0] = 3;
  CHECK(contains_text(error_of_files(outside, {40, 96}, ErrorCode::kBadModel),
                      "\"a.b.g_idx\" puts column 0 into group 3 of 3"));
  QuantisedFiles negative(golden("gptq_v1"));
  negative.bytes_of("a.b.g_idx")[3] = 0x80;
  CHECK(contains_text(error_of_files(negative, {40, 96}, ErrorCode::kBadModel),
                      "group -2147483648 of 3"));
  QuantisedFiles unequal(golden("gptq_v1"));
  unequal.bytes_of("a.b.g_idx")[0] = 1;
  CHECK(contains_text(error_of_files(unequal, {40, 96}, ErrorCode::kUnavailable),
                      "gives group 0 31 columns, not 32"));
}

TEST_CASE("a scale that is not finite is refused when it is read") {
  for (const char* const name : {"awq_g32", "gptq_v1"}) {
    QuantisedFiles files(golden(name));
    const std::span<std::uint8_t> scales = files.bytes_of("a.b.scales");
    scales[2] = 0;
    scales[3] = 0x7C;  // infinity
    CHECK(contains_text(
        error_of_files(files, {40, 96}, ErrorCode::kBadModel),
        "\"a.b.scales\" holds a number that is not finite; download the file again, or "
        "quantise the model again"));
  }
}

TEST_CASE("a weight that cannot be decoded is refused each time it is read") {
  QuantisedFiles files(golden("awq_g32"));
  files.bytes_of("a.b.scales")[1] = 0x7C;  // infinity
  const auto source = files.open();
  for (int i = 0; i < 2; ++i) {
    CHECK_THROWS_WITH_AS(source->read(kWeight, {40, 96}),
                         doctest::Contains("\"a.b.scales\" holds a number that is not finite"),
                         Error);
  }
}

TEST_CASE("a number that is not finite is found by file, tensor and element") {
  QuantisedFiles files(golden("gptq_v1"));
  CHECK_FALSE(files.open()->find_broken_tensor().has_value());
  const std::span<std::uint8_t> bias = files.bytes_of("a.b.bias");
  const float infinity = INFINITY;
  std::memcpy(bias.data() + 3 * sizeof(infinity), &infinity, sizeof(infinity));
  CHECK(contains_text(files.open()->find_broken_tensor().value_or(""),
                      "model.safetensors: tensor \"a.b.bias\" holds a number that is not finite "
                      "(element 3)"));
}

TEST_CASE("the state of a bitsandbytes matrix is validated") {
  const std::string state = "a.b.weight.quant_state.bitsandbytes__nf4";
  const auto error_with = [&](const char* name, const std::string& from, const std::string& to,
                              ErrorCode code) {
    QuantisedFiles files(golden(name));
    REQUIRE(from.size() == to.size());
    files.replace(files.tensors, from, to);
    return error_of_files(files, ExpectedWeights(golden(name)).weight().shape(), code);
  };
  CHECK(contains_text(error_with("nf4", "[24, 128]", "[24, 129]", ErrorCode::kBadModel),
                      "\"a.b.weight\" has 1536 bytes; 1548 were expected for 24 x 129 codes"));
  CHECK(contains_text(error_with("nf4", "[24, 128]", "[24,-128]", ErrorCode::kBadModel), state));
  CHECK(contains_text(error_with("nf4", "[24, 128]", "[3072   ]", ErrorCode::kBadModel),
                      "a matrix was expected"));
  CHECK(contains_text(
      error_with("nf4", "\"blocksize\": 64", "\"blocksize\": 32", ErrorCode::kBadModel),
      "\"a.b.weight.absmax\" has shape [48]; [96] was expected"));
  CHECK(contains_text(
      error_with("nf4", "\"quant_type\": \"nf4\"", "\"quant_type\": \"fp4\"", ErrorCode::kBadModel),
      "is of quant_type \"fp4\""));
  CHECK(contains_text(
      error_with("nf4", "\"blocksize\": 64", "\"blocksize\": {}", ErrorCode::kBadModel), state));
  CHECK(contains_text(error_with("nf4_double", "\"nested_blocksize\": 256",
                                 "\"nested_blocksize\": 128", ErrorCode::kBadModel),
                      "\"a.b.weight.nested_absmax\" has shape"));
  QuantisedFiles table(golden("nf4"));
  table.bytes_of("a.b.weight.quant_map")[3] = 0x7F;
  table.bytes_of("a.b.weight.quant_map")[2] = 0x80;
  CHECK(contains_text(error_of_files(table, {24, 128}, ErrorCode::kBadModel),
                      "\"a.b.weight.quant_map\" holds a number that is not finite"));
  CHECK(contains_text(
      error_with("nf4", "\"quant_type\": \"nf4\"", "\"quant_type\": \"nf5\"", ErrorCode::kBadModel),
      "is of quant_type \"nf5\"; \"nf4\" was expected from its name; download the file again, or "
      "quantise the model again"));
  CHECK(contains_text(error_with("nf4", "\"dtype\": \"float32\"", "\"dtype\": \"float64\"",
                                 ErrorCode::kUnavailable),
                      "dtype \"float64\" is not read by this build; bfloat16, float16"));
  QuantisedFiles order(golden("llm_int8"));
  order.bytes_of("a.b.weight_format")[0] = 2;
  CHECK(contains_text(error_of_files(order, {33, 100}, ErrorCode::kUnavailable),
                      "ordered for a GPU (2)"));
}

TEST_CASE("another table than that of nf4 or fp4 is refused") {
  for (const char* const name : {"nf4", "fp4", "nf4_double"}) {
    CAPTURE(std::string(name));
    QuantisedFiles files(golden(name));
    const std::span<std::uint8_t> map = files.bytes_of("a.b.weight.quant_map");
    for (std::size_t i = 0; i < 16; ++i) {
      const float one = 1.0F;
      std::memcpy(map.data() + i * sizeof(one), &one, sizeof(one));
    }
    const Shape shape = ExpectedWeights(golden(name)).weight().shape();
    const std::string message = error_of_files(files, shape, ErrorCode::kBadModel);
    CHECK(contains_text(message, "tensor \"a.b.weight.quant_map\" holds 1 for code 0; "));
    CHECK(contains_text(message, std::string(name).substr(0, 3) + " was expected; download"));
  }
  // The table of scales: one that is zeroed, and one whose smallest number is.
  for (const std::size_t kept : {std::size_t{0}, std::size_t{126 * sizeof(float)}}) {
    QuantisedFiles files(golden("nf4_double"));
    const std::span<std::uint8_t> scales = files.bytes_of("a.b.weight.nested_quant_map");
    std::fill(scales.begin() + static_cast<std::ptrdiff_t>(kept), scales.end(), std::uint8_t{0});
    const Shape shape = ExpectedWeights(golden("nf4_double")).weight().shape();
    const std::string message = error_of_files(files, shape, ErrorCode::kBadModel);
    CHECK(contains_text(message, "tensor \"a.b.weight.nested_quant_map\" holds 0 for code " +
                                     std::to_string(kept / sizeof(float)) + "; "));
    CHECK(contains_text(message, " of double quantisation was expected; download"));
  }
  // Two entries that changed places: each is a value of the table.
  QuantisedFiles swapped(golden("nf4"));
  const std::span<std::uint8_t> map = swapped.bytes_of("a.b.weight.quant_map");
  std::swap_ranges(map.begin() + 8, map.begin() + 12, map.begin() + 12);
  CHECK(contains_text(error_of_files(swapped, {24, 128}, ErrorCode::kBadModel),
                      "for code 2; -0.525"));
}

TEST_CASE("an act-order file without the groups of its columns is refused") {
  QuantisedFiles files(golden("gptq_no_g_idx"));
  files.replace_config("\"desc_act\": false", "\"desc_act\": true");
  CHECK(contains_text(error_of_files(files, {48, 160}, ErrorCode::kBadModel),
                      "\"a.b.g_idx\" is missing beside the others of its module"));
}

TEST_CASE("another shape than the model's is refused") {
  const auto source = open_source(golden("awq_g32"));
  CHECK_THROWS_WITH_AS(
      source->read(kWeight, {96, 40}),
      doctest::Contains("stored as codes of shape [40, 96]; expected [96, 40]; weights and "
                        "configuration are of different models: download"),
      Error);
}

TEST_CASE("quantised weights without quantization_config are refused") {
  const struct {
    const char* golden;
    const char* tensor;
  } kRows[] = {{"awq_g32", "a.b.qweight"},
               {"gptq_v1", "a.b.qweight"},
               {"llm_int8", "a.b.SCB"},
               {"nf4", "a.b.weight.quant_map"}};
  for (const auto& row : kRows) {
    CAPTURE(std::string(row.golden));
    QuantisedFiles files(golden(row.golden));
    files.config = "{}";
    const std::string message = error_of_files(files, {1, 1}, ErrorCode::kBadModel);
    CHECK(contains_text(message, "config.json: quantization_config is missing, but "));
    CHECK(contains_text(message, "model.safetensors: tensor \"" + std::string(row.tensor) +
                                     "\" is a part of a quantised weight"));
    CHECK(contains_text(message, "download config.json again"));
  }
}

TEST_CASE("no mutated file does worse than an error") {
  check_mutated_files("quantised", all_cases(), 1);
}

TEST_SUITE_END();

}  // namespace caption::weights
