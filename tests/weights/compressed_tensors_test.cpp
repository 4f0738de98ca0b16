// Checkpoints of compressed-tensors and of plain FP8; the goldens are made by
// scripts/make_goldens_compressed_tensors.py with the library that defines the first.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "tensor/dtype.h"
#include "tests/weights/quantised_files.h"
#include "weights/code_format.h"
#include "weights/format.h"

namespace caption::weights {
namespace {

namespace fs = std::filesystem;
using namespace testing;

struct Case {
  const char* name;
  MatrixFormat format;
  bool is_8_bit = false;
  std::int64_t group_columns = 0;
  bool has_offsets = false;
  bool has_column_order = false;
  DType scales = DType::kBF16;
};
constexpr Case kCases[] = {
    {"w4_g32", MatrixFormat::kInt4, false, 32},
    {"w4_g128_asymmetric_f16", MatrixFormat::kInt4, false, 128, true, false, DType::kF16},
    {"w4_channel_odd", MatrixFormat::kInt4, false, 75},
    {"w4_act_order", MatrixFormat::kInt4, false, 32, false, true},
    {"w4_act_order_asymmetric", MatrixFormat::kInt4, false, 16, true, true},
    {"w4_g_idx_unset", MatrixFormat::kInt4, false, 32},
    {"w8_g64_asymmetric", MatrixFormat::kInt8, true, 64, true},
    {"w8_channel_odd", MatrixFormat::kInt8Row, true, 45, false, false, DType::kF32},
    {"w8a8", MatrixFormat::kInt8Row, true, 100},
    {"w8a8_f32", MatrixFormat::kInt8Row, true, 70, false, false, DType::kF32},
    {"w8a8_asymmetric", MatrixFormat::kInt8, true, 50, true, false, DType::kF16},
    {"w8a8_static_tensor", MatrixFormat::kInt8Row, true, 48},
    {"mixed", MatrixFormat::kInt4, false, 32},
};
// Scales of f32 and zero points: the sum of the products is rounded.
constexpr Case kRounded = {"w4_channel_asymmetric_f32", MatrixFormat::kInt4, false, 60, true};
constexpr const char* kFloatCases[] = {
    "fp8_tensor_static",    "fp8_channel_f32",  "fp8_block",        "plain_fp8_block",
    "plain_fp8_block_bf16", "plain_fp8_tensor", "plain_fp8_static", "plain_fp8_channel"};

fs::path golden(const std::string& name) { return quantised_golden("compressed_tensors", name); }

std::vector<std::string> all_cases() {
  std::vector<std::string> names = {kRounded.name};
  for (const Case& c : kCases) names.emplace_back(c.name);
  names.insert(names.end(), std::begin(kFloatCases), std::end(kFloatCases));
  return names;
}

// The number at `i`, rounded to `dtype`, as f32.
float rounded_to(DType dtype, ConstView numbers, std::int64_t i) {
  const float number = dispatch_float(
      numbers.dtype(), [&](auto tag) { return to_float(numbers.as<decltype(tag)>()[i]); });
  if (dtype == DType::kBF16) return to_float(to_bf16(number));
  return dtype == DType::kF16 ? to_float(to_f16(number)) : number;
}

// Counts numbers that differ when both are rounded to the less exact of the dtypes.
std::int64_t count_unequal(ConstView found, ConstView expected) {
  REQUIRE(found.shape() == expected.shape());
  const DType dtype = expected.dtype() == DType::kF32 ? found.dtype() : expected.dtype();
  std::int64_t unequal = 0;
  for (std::int64_t i = 0; i < found.num_elements(); ++i) {
    const float a = rounded_to(dtype, found, i);
    const float b = rounded_to(dtype, expected, i);
    if (std::bit_cast<std::uint32_t>(a) != std::bit_cast<std::uint32_t>(b)) ++unequal;
  }
  return unequal;
}

}  // namespace

TEST_SUITE_BEGIN("weights/compressed_tensors");

TEST_CASE("decodes to the numbers that the library rounds to the dtype of its scales") {
  for (const std::string& name : all_cases()) {
    CAPTURE(name);
    const ExpectedWeights expected(golden(name));
    const auto source = open_source(golden(name));
    const Shape shape = expected.weight().shape();
    CHECK(count_unequal(source->read(kCodedWeight, shape), expected.weight()) == 0);
    source->release(kCodedWeight);
    // A second time, after its pages were released.
    CHECK(count_unequal(source->read(kCodedWeight, shape), expected.weight()) == 0);
  }
}

TEST_CASE("its codes stand for the same numbers, whichever rows are read") {
  for (const Case& c : kCases) {
    CAPTURE(c.name);
    const auto source = open_source(golden(c.name));
    const Shape shape = source->shape(kCodedWeight).value();
    const ConstView numbers = source->read(kCodedWeight, shape);
    std::int64_t unequal = 0;
    for (std::int64_t first = 0; first < shape[0];) {
      const std::int64_t count = std::min<std::int64_t>(first % 3 + 3, shape[0] - first);
      const QuantisedMatrix rows = source->read_codes(kCodedWeight, shape, first, count);
      REQUIRE(rows.num_rows() == count);
      // The dtype of the file's scales holds them; offsets are products.
      const NumberDTypes held = rows.number_dtypes;
      REQUIRE(held == source->codes_of(kCodedWeight)->layout.numbers);
      REQUIRE(held == NumberDTypes{.scales = c.scales, .offsets = DType::kF32});
      for (std::int64_t n = 0; n < count; ++n) {
        for (std::int64_t k = 0; k < shape[1]; ++k) {
          const float wanted = numbers.as<float>()[(first + n) * shape[1] + rows.column_of(k)];
          if (rows.value(n, k) != wanted) ++unequal;
        }
      }
      first += count;
    }
    CHECK(unequal == 0);
  }
}

TEST_CASE("with f32 scales and zero points its codes are within three roundings") {
  const auto source = open_source(golden(kRounded.name));
  const Shape shape = source->shape(kCodedWeight).value();
  const ConstView numbers = source->read(kCodedWeight, shape);
  const QuantisedMatrix matrix = source->read_codes(kCodedWeight, shape, 0, shape[0]);
  for (std::int64_t n = 0; n < shape[0]; ++n) {
    // Terms and sum are at most 8 + 8 times the scale; each is rounded by half of 2^-23 of itself.
    const float bound = 3 * 16 * matrix.scales.as<float>()[n] * 0x1p-24F;
    for (std::int64_t k = 0; k < shape[1]; ++k) {
      CHECK(std::abs(matrix.value(n, k) - numbers.as<float>()[n * shape[1] + k]) <= bound);
    }
  }
}

TEST_CASE("says how a tensor is held") {
  std::vector<Case> cases(std::begin(kCases), std::end(kCases));
  cases.push_back(kRounded);
  for (const Case& c : cases) {
    CAPTURE(c.name);
    const auto source = open_source(golden(c.name));
    const std::optional<StoredCodes> codes = source->codes_of(kCodedWeight);
    REQUIRE(codes.has_value());
    CHECK(codes->method == "compressed-tensors");
    CHECK(codes->format == c.format);
    CHECK(codes->layout.is_8_bit == c.is_8_bit);
    CHECK(codes->layout.group_columns == c.group_columns);
    CHECK(codes->layout.has_offsets == c.has_offsets);
    CHECK(codes->layout.has_column_order == c.has_column_order);
    for (const char* const part : {"weight_packed", "weight_scale", "weight_shape", "weight_g_idx",
                                   "weight_zero_point", "input_scale"}) {
      CHECK_FALSE(source->has(std::string("a.b.") + part));
    }
  }
}

TEST_CASE("8-bit floats have no codes and are bf16") {
  for (const char* const name : kFloatCases) {
    CAPTURE(name);
    const auto source = open_source(golden(name));
    CHECK_FALSE(source->codes_of(kCodedWeight).has_value());
    const Shape shape = source->shape(kCodedWeight).value();
    CHECK(source->read(kCodedWeight, shape).dtype() == DType::kBF16);
    CHECK(source->has("a.b.weight"));
    for (const char* const part : {"weight_scale", "weight_scale_inv", "input_scale"}) {
      CHECK_FALSE(source->has(std::string("a.b.") + part));
    }
  }
}

TEST_CASE("8-bit floats with a scale per row or matrix keep their numbers in fp8") {
  for (const char* const name : kFloatCases) {
    CAPTURE(name);
    const auto source = open_source(golden(name));
    const Shape shape = source->shape(kCodedWeight).value();
    const std::optional<StoredCodes> e4m3 = source->e4m3_of(kCodedWeight);
    REQUIRE(e4m3.has_value());
    const bool has_blocks = std::string(name).find("block") != std::string::npos;
    CHECK(keeps_codes(WeightFormat::kFp8, *e4m3) == !has_blocks);
    CHECK_FALSE(source->e4m3_of("a.b.nothing").has_value());
    if (has_blocks) {
      CHECK_THROWS_WITH_AS(
          require_kept_codes(WeightFormat::kFp8, *e4m3, "w"),
          doctest::Contains("w holds 8-bit codes (fp8 with scales of blocks), which "
                            "fp8 would round a second time; bf16 keeps"),
          Error);
    } else {
      CHECK(code_format(WeightFormat::kFp8, *e4m3) == MatrixFormat::kE4M3Row);
    }
    const ConstView numbers = source->read(kCodedWeight, shape);
    // In pieces; a number is rounded to bf16 where it is decoded.
    std::int64_t unequal = 0;
    for (std::int64_t first = 0; first < shape[0]; first += 7) {
      const std::int64_t count = std::min<std::int64_t>(7, shape[0] - first);
      const QuantisedMatrix rows = source->read_codes(kCodedWeight, shape, first, count);
      REQUIRE(rows.has_e4m3_codes);
      REQUIRE((rows.num_groups() == 1) == !has_blocks);
      const QuantisedMatrix borrowed = source->borrow_codes(kCodedWeight, shape, first, count);
      REQUIRE(borrowed.group_columns == rows.group_columns);
      REQUIRE(borrowed.num_rows() == count);
      CHECK(count_unequal(borrowed.scales.view(), rows.scales.view()) == 0);
      for (std::int64_t n = 0; n < count; ++n) {
        const std::uint8_t* const row = borrowed.file_codes.rows[static_cast<std::size_t>(n)];
        CHECK(std::memcmp(row, rows.codes.as<std::int8_t>() + n * shape[1],
                          static_cast<std::size_t>(shape[1])) == 0);
      }
      for (std::int64_t i = 0; i < count * shape[1]; ++i) {
        const float value = rows.value(i / shape[1], i % shape[1]);
        const BF16 decoded = numbers.as<BF16>()[first * shape[1] + i];
        if (to_float(to_bf16(value)) != to_float(decoded)) ++unequal;
      }
    }
    CHECK(unequal == 0);
  }
  QuantisedFiles files(golden("plain_fp8_tensor"));
  files.bytes_of("a.b.weight")[35] = 0x7F;
  const auto source = files.open();
  const Shape shape = source->shape(kCodedWeight).value();
  CHECK_THROWS_WITH_AS(source->read_codes(kCodedWeight, shape, 0, shape[0]),
                       doctest::Contains("\"a.b.weight\" holds NaN in row 1, column 2"), Error);
}

TEST_CASE("every module has the group of config_groups that its tensors fit") {
  const auto source = open_source(golden("mixed"));
  const ExpectedWeights expected(golden("mixed"));
  const ConstView weight = expected.weight("a.c.weight");
  CHECK(count_unequal(source->read("a.c.weight", weight.shape()), weight) == 0);
  CHECK(source->codes_of("a.c.weight")->format == MatrixFormat::kInt8Row);
}

TEST_CASE("a module with act-order has a group with act-order, wherever config_groups lists it") {
  QuantisedFiles files(golden("w4_act_order"));
  files.replace_config(
      "\"group_0\": {",
      "\"group_0\": {\"targets\": [\"re:.*mlp.*\"], \"weights\": {\"num_bits\": 4, "
      "\"type\": \"int\", \"symmetric\": true, \"group_size\": 32, "
      "\"strategy\": \"group\"}}, \"group_1\": {");
  const auto source = files.open();
  const ExpectedWeights expected(golden("w4_act_order"));
  CHECK(count_unequal(source->read(kCodedWeight, expected.weight().shape()), expected.weight()) ==
        0);
  CHECK_FALSE(source->has("a.b.weight_g_idx"));
}

TEST_CASE("scales that two groups of config_groups explain differently are refused") {
  const auto with_rows = [](const std::string& rows) {
    QuantisedFiles files(golden("fp8_block"));  // 32 x 48 in blocks of 16 x 24
    files.replace_config("\"group_0\": {",
                         "\"group_1\": {\"targets\": [\"re:.*mlp.*\"], \"weights\": {\"type\": "
                         "\"float\", \"strategy\": \"block\", \"block_structure\": [" +
                             rows + ", 24]}}, \"group_0\": {");
    return files;
  };
  CHECK(contains_text(error_of_files(with_rows("20"), {32, 48}, ErrorCode::kUnavailable),
                      "\"a.b.weight_scale\" fits two of config_groups, with different blocks"));
  // Three blocks of 12 rows would need other scales; blocks of 16 rows are the same.
  CHECK(error_of_files(with_rows("12"), {32, 48}, ErrorCode::kUnavailable).empty());
  CHECK(error_of_files(with_rows("16"), {32, 48}, ErrorCode::kUnavailable).empty());
}

TEST_CASE("a checkpoint says whether activations are rounded for each token") {
  const auto rounds = [](const char* name) {
    return open_source(golden(name))->codes_of(kCodedWeight).value().rounds_activations;
  };
  CHECK(rounds("w8a8"));
  CHECK(rounds("w8a8_f32"));
  CHECK_FALSE(rounds("w8a8_static_tensor"));  // one scale for all tokens
  CHECK_FALSE(rounds("w8_channel_odd"));      // input_activations is null
  CHECK_FALSE(rounds("w4_g32"));
}

TEST_CASE("rows of 8 bits round their inputs in w8a8 only") {
  const StoredCodes rows = open_source(golden("w8a8"))->codes_of(kCodedWeight).value();
  CHECK(keeps_codes(WeightFormat::kW8A8, rows));
  CHECK(code_format(WeightFormat::kW8A8, rows) == MatrixFormat::kInt8Row);
  for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kBF16, WeightFormat::kInt8}) {
    CHECK(keeps_codes(format, rows));
    CHECK(code_format(format, rows) == MatrixFormat::kInt8);
  }
  CHECK_FALSE(keeps_codes(WeightFormat::kInt4, rows));
  const StoredCodes offsets =
      open_source(golden("w8a8_asymmetric"))->codes_of(kCodedWeight).value();
  CHECK_FALSE(keeps_codes(WeightFormat::kW8A8, offsets));
  const StoredCodes four = open_source(golden("w4_g32"))->codes_of(kCodedWeight).value();
  CHECK(keeps_codes(WeightFormat::kInt4, four));
  CHECK_FALSE(keeps_codes(WeightFormat::kInt8, four));
}

TEST_CASE("a configuration that this build does not read is refused by name") {
  struct Change {
    const char* name;
    const char* from;
    const char* to;
    const char* message;
    ErrorCode code = ErrorCode::kUnavailable;
  };
  constexpr Change kChanges[] = {
      {"w4_g32", "\"pack-quantized\"", "\"marlin-24\"", "format \"marlin-24\" is not read"},
      {"w4_g32", "\"pack-quantized\"", "\"nvfp4-pack-quantized\"", "pack-quantized, int-quantized"},
      {"w4_g32", "\"pack-quantized\"", "\"float-quantized\"",
       "format \"float-quantized\" of weights of type \"int\""},
      {"w4_g32", "\"num_bits\": 4", "\"num_bits\": 3", "num_bits 3 of type \"int\" is not read"},
      {"w4_g32", "\"num_bits\": 4", "\"num_bits\": 2", "4 and 8 are"},
      {"w4_g32", "\"type\": \"int\"", "\"type\": \"uint\"", "type \"uint\""},
      {"w4_g32", "\"strategy\": \"group\"", "\"strategy\": \"tensor_group\"",
       "strategy \"tensor_group\" is not read by this build; tensor, channel and group are"},
      {"w4_g32", "\"strategy\": \"group\"", "\"strategy\": \"token\"", "strategy \"token\""},
      {"w4_g32", "\"strategy\": \"group\"", "\"strategy\": \"block\"", "strategy \"block\""},
      {"w4_g32", "\"group_size\": 32", "\"group_size\": 33", "a group of 33 columns"},
      {"w4_g32", "\"group_size\": 32", "\"group_size\": 0", "group_size", ErrorCode::kBadModel},
      {"w4_g32", "\"actorder\": null", "\"actorder\": \"zigzag\"", "actorder \"zigzag\""},
      {"w4_g32", "\"dynamic\": false", "\"dynamic\": true", "\"dynamic\" is not known"},
      {"w4_g32", "\"observer_kwargs\"", "\"rotation\": 1, \"observer_kwargs\"", "\"rotation\""},
      {"w4_g32", "\"kv_cache_scheme\": null", "\"kv_cache_scheme\": {\"num_bits\": 8}",
       "kv_cache_scheme is not read by this build; null is"},
      {"w4_g32", "\"sparsity_config\": {}",
       "\"sparsity_config\": {\"format\": \"sparse-24-bitmask\"}",
       "format \"sparse-24-bitmask\" is not read by this build; dense is"},
      {"w4_g32", "\"transform_config\": {}", "\"transform_config\": {\"config_groups\": {}}",
       "\"transform_config\" is not known"},
      {"w4_g32", "\"output_activations\": null", "\"output_activations\": {\"num_bits\": 8}",
       "\"output_activations\" is not known"},
      {"w4_g32", "\"group_0\": {", "\"W8A8\": [], \"group_0\": {", "the preset \"W8A8\""},
      {"w4_g32", "\"weights\": {", "\"waits\": {", "\"waits\" is not known"},
      {"w8a8_static_tensor", "\"symmetric\": true", "\"symmetric\": false", "of strategy"},
      {"fp8_block", "\"num_bits\": 8", "\"num_bits\": 4", "num_bits 4 of type \"float\""},
      {"fp8_block", "\"symmetric\": true", "\"symmetric\": false", "of type \"float\""},
      {"fp8_block", "     16,", "     0,", "block_structure: [0, 24]", ErrorCode::kBadModel},
      {"plain_fp8_block", "\"e4m3\"", "\"e5m2\"",
       "fmt \"e5m2\" is not read by this build; e4m3 is"},
      {"plain_fp8_block", "\"activation_scheme\"", "\"rotation\"", "\"rotation\" is not known"},
      {"plain_fp8_block", "   128,", "   -1,", "weight_block_size: [-1, 128]",
       ErrorCode::kBadModel},
  };
  for (const Change& change : kChanges) {
    CAPTURE(change.message);
    QuantisedFiles files(golden(change.name));
    files.replace_config(change.from, change.to);
    const std::string message = error_of_files(files, {40, 96}, change.code);
    CHECK(contains_text(message, change.message));
    CHECK(contains_text(message, "config.json"));
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
      {"w4_g32", "a.b.weight_scale", "a.b.weight_scalp", "\"a.b.weight_scale\" is missing"},
      {"w4_g32", "a.b.weight_shape", "a.b.weight_shapp", "\"a.b.weight_shape\" is missing"},
      {"w4_g32", "\"shape\":[40,12]", "\"shape\":[48,10]",
       "\"a.b.weight_packed\" has shape [48, 10]; [40, 12] was expected"},
      {"w4_g32", "\"shape\":[40,3]", "\"shape\":[3,40]",
       "\"a.b.weight_scale\" has shape [3, 40]; [40, 3] was expected: a scale for every 1 x 32"},
      {"w4_g128_asymmetric_f16", "a.b.weight_zero_point", "a.b.weight_zero_poinx",
       "\"a.b.weight_zero_point\" is missing"},
      {"w4_act_order", "a.b.weight_g_idx", "a.b.weight_g_idy", "\"a.b.weight_g_idx\" is missing"},
      {"w8a8", "\"BF16\",\"shape\":[33,1]", "\"U8\",\"shape\":[33,2]  ", "has dtype U8"},
      {"w8a8", "\"shape\":[33,100]", "\"shape\":[100,33]", "has shape [33, 1]; [100, 1]"},
      {"w8a8", "\"I8\"", "\"U8\"", "has dtype U8; I8 was expected"},
      {"fp8_block", "\"shape\":[2,2]", "\"shape\":[4,1]", "has shape [4, 1]; [2, 2]"},
      {"fp8_block", "F8_E4M3", "F8_E5M2", "has dtype F8_E5M2"},
      {"plain_fp8_block", "\"shape\":[2,2]", "\"shape\":[4,1]", "has shape [4, 1]; [2, 2]"},
      {"plain_fp8_block", "a.b.weight_scale_inv", "a.b.weight_scale_inf",
       "tensor \"a.b.weight\" has dtype F8_E4M3 and no scale: \"a.b.weight_scale_inv\" or "
       "\"a.b.weight_scale\" is missing"},
      {"w8a8", "a.b.weight_scale", "a.b.weight_scalp",
       "tensor \"a.b.weight\" has dtype I8 and no scale: \"a.b.weight_scale\" is missing"},
      {"mixed", "a.c.weight_scale", "a.c.weight_scalp",
       "tensor \"a.c.weight\" has dtype I8 and no scale: \"a.c.weight_scale\" is missing"},
      {"fp8_block", "a.b.weight_scale", "a.b.weight_scalp",
       "tensor \"a.b.weight\" has dtype F8_E4M3 and no scale: \"a.b.weight_scale\" is missing"},
      {"plain_fp8_tensor", "F8_E4M3", "F8_E5M2", "has dtype F8_E5M2; F8_E4M3 was expected"},
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

TEST_CASE("shapes, groups and scales of impossible values are refused") {
  const auto error_with = [](const char* name, const char* tensor, std::size_t byte,
                             std::uint8_t value) {
    QuantisedFiles files(golden(name));
    files.bytes_of(tensor)[byte] = value;
    const Shape shape = ExpectedWeights(golden(name)).weight().shape();
    return error_of_files(files, shape, ErrorCode::kBadModel);
  };
  CHECK(contains_text(error_with("w4_g32", "a.b.weight_shape", 0, 0),
                      "\"a.b.weight_shape\" holds 0; rows or columns were expected"));
  CHECK(contains_text(error_with("w4_g32", "a.b.weight_shape", 7, 0x80), "holds -92233720"));
  CHECK(contains_text(error_with("w4_g32", "a.b.weight_shape", 8, 95),
                      "has 95 columns, which groups of 32 do not divide"));
  CHECK(contains_text(error_with("w4_act_order", "a.b.weight_g_idx", 0, 9), "into group 9 of 4"));
  CHECK(contains_text(error_with("w4_g32", "a.b.weight_scale", 1, 0x7F),
                      "\"a.b.weight_scale\" holds a scale that is not finite"));
  CHECK(contains_text(error_with("plain_fp8_tensor", "a.b.weight_scale_inv", 3, 0x7F),
                      "\"a.b.weight_scale_inv\" holds a scale that is not finite"));
  CHECK(contains_text(error_with("plain_fp8_tensor", "a.b.weight", 35, 0xFF),
                      "\"a.b.weight\" holds NaN in row 1, column 2"));
}

TEST_CASE("act-order with groups of unequal sizes is refused") {
  QuantisedFiles files(golden("w4_act_order"));
  std::uint8_t& group = files.bytes_of("a.b.weight_g_idx")[0];
  group = group == 0 ? 1 : 0;
  CHECK(contains_text(error_of_files(files, {24, 128}, ErrorCode::kUnavailable),
                      "\"a.b.weight_g_idx\" gives group 0"));
}

TEST_CASE("no mutated file does worse than an error") {
  check_mutated_files("compressed_tensors", all_cases(), 2);
}

TEST_SUITE_END();

}  // namespace caption::weights
