// The formats against the libraries that define them; the goldens are made by
// scripts/make_goldens_quantize.py, which runs these libraries.
#include "quantise/format.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "quantise/blocks.h"
#include "quantise/rounding.h"
#include "tests/weights/quantised_files.h"
#include "weights/checkpoint.h"

namespace caption::quantise {
namespace {

namespace fs = std::filesystem;

const fs::path kGoldens = fs::path(CAPTION_SOURCE_DIR) / "tests/golden/quantise";
constexpr const char* kWeight = "a.b.weight";

// A tensor as it is in a file.
struct Stored {
  std::string dtype;
  std::vector<std::int64_t> extents;
  std::string bytes;
};
using StoredTensors = std::map<std::string, Stored>;

StoredTensors read_tensors(const fs::path& path) {
  const std::string file = testing::read_whole_file(path);
  StoredTensors tensors;
  for (const weights::FileTensor& tensor :
       weights::parse_safetensors(std::as_bytes(std::span(file)), path.string())) {
    tensors[tensor.name] = {
        tensor.dtype_name, tensor.extents,
        std::string(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size())};
  }
  return tensors;
}

StoredTensors encode(const Format& format, ConstView matrix, int num_threads = 1) {
  const MatrixPlan plan{.module = "a.b", .shape = matrix.shape(), .dtype = matrix.dtype()};
  ThreadPool pool(num_threads);
  const std::vector<Bytes> bytes = format.encode(pool, matrix);
  const std::vector<weights::PlannedTensor> parts = format.parts(plan);
  REQUIRE(bytes.size() == parts.size());
  StoredTensors tensors;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    CAPTURE(parts[i].name);
    REQUIRE(std::ssize(bytes[i]) == parts[i].size_bytes);
    tensors[parts[i].name] = {
        parts[i].dtype, parts[i].extents,
        std::string(reinterpret_cast<const char*>(bytes[i].data()), bytes[i].size())};
  }
  return tensors;
}

struct Golden {
  std::string name;
  std::unique_ptr<const Format> format;
  weights::Checkpoint source;
  StoredTensors expected;

  ConstView weight() const { return source.find(kWeight).value(); }
};

std::vector<Golden> read_goldens() {
  std::vector<Golden> goldens;
  const JsonObject cases = JsonObject::open(kGoldens / "cases.json", ErrorCode::kBadModel);
  for (const std::string& name : cases.keys()) {
    const JsonObject one = cases.get_object(name).value();
    const FormatEntry* const entry = find_format(one.require_string("format"));
    REQUIRE(entry != nullptr);
    goldens.push_back({.name = name,
                       .format = entry->make({.double_quant = one.get_bool("double_quant", false)}),
                       .source = weights::Checkpoint::open(kGoldens / name / "source.safetensors"),
                       .expected = read_tensors(kGoldens / name / "expected.safetensors")});
  }
  return goldens;
}

bool is_state(const std::string& tensor) {
  return tensor.find(".quant_state.") != std::string::npos;
}

// Compares what the states say. The mean of the scales is summed in another order by the library:
// each of its n additions of positive numbers in f32 errs by at most 2^-24 of the sum.
void check_state(const std::string& ours, const std::string& theirs, std::int64_t num_scales) {
  const JsonObject a = JsonObject::parse(ours, "ours", ErrorCode::kBadModel);
  const JsonObject b = JsonObject::parse(theirs, "theirs", ErrorCode::kBadModel);
  CHECK(a.keys() == b.keys());
  for (const char* const key : {"quant_type", "dtype", "nested_dtype"}) {
    CHECK(a.get_string(key, "") == b.get_string(key, ""));
  }
  for (const char* const key : {"blocksize", "nested_blocksize"}) {
    CHECK(a.get_int(key, 0, 0, 1 << 20) == b.get_int(key, 0, 0, 1 << 20));
  }
  CHECK(a.get_ints("shape") == b.get_ints("shape"));
  const double offset = b.get_double("nested_offset", 0);
  const double bound = (static_cast<double>(num_scales) + 2) * 0x1p-24 * std::abs(offset);
  CHECK(std::abs(a.get_double("nested_offset", 0) - offset) <= bound);
}

}  // namespace

TEST_SUITE_BEGIN("quantise/format");

TEST_CASE("makes the bits of the library that defines the format") {
  int num_compared = 0;
  for (const Golden& golden : read_goldens()) {
    CAPTURE(golden.name);
    const StoredTensors made = encode(*golden.format, golden.weight());
    CHECK(made.size() == golden.expected.size());
    for (const auto& [name, expected] : golden.expected) {
      CAPTURE(name);
      REQUIRE(made.contains(name));
      const Stored& ours = made.at(name);
      CHECK(ours.dtype == expected.dtype);
      if (is_state(name)) {
        check_state(ours.bytes, expected.bytes, golden.weight().num_elements() / 64);
        continue;
      }
      CHECK(ours.extents == expected.extents);
      // Codes of scales are compared with the library's mean below.
      const bool is_nested = golden.expected.contains("a.b.weight.nested_absmax") &&
                             (name == "a.b.weight.absmax" || name.ends_with("nested_absmax"));
      if (is_nested) continue;
      CHECK(ours.bytes == expected.bytes);
      ++num_compared;
    }
  }
  CHECK(num_compared > 40);
}

TEST_CASE("quantises scales to the bits of bitsandbytes, given the mean that it found") {
  int num_nested = 0;
  for (const Golden& golden : read_goldens()) {
    if (!golden.expected.contains("a.b.weight.nested_absmax")) continue;
    CAPTURE(golden.name);
    const bool is_nf4 = golden.name.starts_with("nf4");
    ThreadPool pool(1);
    const BlockCodes blocks =
        round_to_blocks(pool, golden.weight(), is_nf4 ? BlockTable::kNf4 : BlockTable::kFp4);
    for (const auto& [name, stored] : golden.expected) {
      if (!is_state(name)) continue;
      const JsonObject state = JsonObject::parse(stored.bytes, name, ErrorCode::kBadModel);
      const NestedScales nested =
          nest_scales(blocks.absmax, static_cast<float>(state.get_double("nested_offset", 0)));
      const std::string& codes = golden.expected.at("a.b.weight.absmax").bytes;
      const std::string& absmax = golden.expected.at("a.b.weight.nested_absmax").bytes;
      REQUIRE(nested.codes.size() == codes.size());
      CHECK(std::memcmp(nested.codes.data(), codes.data(), codes.size()) == 0);
      REQUIRE(nested.absmax.size() * sizeof(float) == absmax.size());
      CHECK(std::memcmp(nested.absmax.data(), absmax.data(), absmax.size()) == 0);
      ++num_nested;
    }
  }
  CHECK(num_nested == 3);
}

TEST_CASE("makes the same bytes with any number of threads") {
  for (const Golden& golden : read_goldens()) {
    CAPTURE(golden.name);
    const StoredTensors one = encode(*golden.format, golden.weight(), 1);
    const StoredTensors three = encode(*golden.format, golden.weight(), 3);
    for (const auto& [name, stored] : one) CHECK(stored.bytes == three.at(name).bytes);
  }
}

TEST_CASE("a weight that is not finite is refused by every format") {
  for (const FormatEntry& entry : formats()) {
    CAPTURE(entry.name);
    const auto format = entry.make({});
    Tensor matrix = Tensor::zeros(DType::kF32, {8, 128});
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      matrix.as<float>()[130] = bad;
      ThreadPool pool(2);
      CHECK_THROWS_WITH_AS(format->encode(pool, matrix.view()),
                           "a weight is not a finite number; download the model again", Error);
    }
  }
}

TEST_CASE("zeros stay zeros, and rows of one sign keep their range") {
  ThreadPool pool(1);
  const Tensor zeros = Tensor::zeros(DType::kF32, {8, 128});
  const RoundedMatrix int8 = round_llm_int8(pool, zeros.view());
  CHECK(int8.codes == std::vector<std::int8_t>(8 * 128, 0));
  Tensor positive(DType::kF32, {8, 128});
  for (std::int64_t i = 0; i < positive.num_elements(); ++i) {
    positive.as<float>()[i] = 0.5F + static_cast<float>(i % 128) / 256;
  }
  for (const RoundedMatrix& rounded :
       {round_awq(pool, positive.view(), 128), round_gptq(pool, positive.view(), 128)}) {
    for (std::size_t i = 0; i < rounded.codes.size(); ++i) {
      const std::size_t group = i / 128;
      const float value =
          rounded.scales[group] * static_cast<float>(rounded.codes[i] - rounded.zeros[group]);
      // Half a step, and for the largest numbers of gptq, whose codes end at 7 steps, another half;
      // awq's operations are rounded to f16.
      const float wanted = positive.as<float>()[static_cast<std::int64_t>(i)];
      CHECK(std::abs(value - wanted) <= rounded.scales[group] * 1.01F);
    }
  }
}

TEST_CASE("a number beyond f16 is refused where weights are rounded to it") {
  Tensor matrix = Tensor::zeros(DType::kF32, {8, 128});
  matrix.as<float>()[5] = 1e5F;
  for (const char* const name : {"int8", "awq"}) {
    CAPTURE(name);
    ThreadPool pool(1);
    CHECK_THROWS_WITH_AS(find_format(name)->make({})->encode(pool, matrix.view()),
                         doctest::Contains("is beyond the range of f16"), Error);
  }
}

TEST_CASE("packs codes that were chosen elsewhere as the file format says") {
  ThreadPool pool(2);
  constexpr std::int64_t kRows = 16;
  constexpr std::int64_t kColumns = 96;
  constexpr std::int64_t kGroup = 32;
  RoundedMatrix rounded{.rows = kRows, .columns = kColumns, .group_columns = kGroup};
  for (std::int64_t i = 0; i < kRows * kColumns; ++i) {
    rounded.codes.push_back(static_cast<std::int8_t>(i * 7 % 16));
  }
  for (std::int64_t i = 0; i < kRows * 3; ++i) {
    rounded.scales.push_back(0.25F + static_cast<float>(i) / 64);
    rounded.zeros.push_back(static_cast<std::uint8_t>(i % 16));
  }
  for (std::int64_t k = 0; k < kColumns; ++k) {
    rounded.group_of.push_back(static_cast<std::int32_t>(k % 3));
  }
  const auto format =
      find_format("gptq")->make({.group_columns = kGroup, .symmetric = false, .act_order = true});
  const MatrixPlan plan{.module = "a.b", .shape = {kRows, kColumns}};
  const std::vector<weights::PlannedTensor> parts = format->parts(plan);
  const std::vector<Bytes> bytes = format->pack(pool, rounded);
  REQUIRE(bytes.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(std::ssize(bytes[i]) == parts[i].size_bytes);
  const auto word = [&](std::size_t part, std::int64_t i) {
    std::uint32_t value = 0;
    std::memcpy(&value, bytes[part].data() + i * 4, 4);
    return value;
  };
  for (std::int64_t n = 0; n < kRows; ++n) {
    for (std::int64_t k = 0; k < kColumns; ++k) {
      const std::uint32_t code = word(0, k / 8 * kRows + n) >> (4 * (k % 8)) & 15u;
      CHECK(code == static_cast<std::uint32_t>((n * kColumns + k) * 7 % 16));
    }
    for (std::int64_t g = 0; g < 3; ++g) {
      const std::uint32_t zero = word(1, (g * kRows + n) / 8) >> (4 * (n % 8)) & 15u;
      CHECK(zero == rounded.zeros[static_cast<std::size_t>(n * 3 + g)]);
      F16 scale;
      std::memcpy(&scale, bytes[2].data() + (g * kRows + n) * 2, 2);
      CHECK(to_float(scale) == rounded.scales[static_cast<std::size_t>(n * 3 + g)]);
    }
  }
  for (std::int64_t k = 0; k < kColumns; ++k) CHECK(word(3, k) == k % 3);
  const std::string config = format->config({});
  CHECK(config.find(R"("checkpoint_format": "gptq_v2")") != std::string::npos);
  CHECK(config.find(R"("desc_act": true)") != std::string::npos);
  CHECK(config.find(R"("group_size": 32)") != std::string::npos);
  CHECK(config.find(R"("sym": false)") != std::string::npos);
  // Codes in other groups than the file's, or without a place for them.
  for (const char* const name : {"gptq", "awq"}) {
    CHECK_THROWS_WITH_AS(find_format(name)->make({})->pack(pool, rounded),
                         doctest::Contains("codes in other groups"), Error);
  }
  CHECK_THROWS_WITH_AS(find_format("nf4")->make({})->pack(pool, rounded),
                       doctest::Contains("takes no codes"), Error);
}

TEST_CASE("groups of other sizes are those of their options") {
  ThreadPool pool(2);
  Tensor matrix(DType::kF32, {16, 64});
  for (std::int64_t i = 0; i < matrix.num_elements(); ++i) {
    matrix.as<float>()[i] = static_cast<float>(i * 37 % 101 - 50) / 64;
  }
  int num_formats = 0;
  for (const FormatEntry& entry : formats()) {
    if (!entry.has_groups) continue;
    CAPTURE(entry.name);
    ++num_formats;
    for (const std::int64_t group : {32, 64}) {
      const auto format = entry.make({.group_columns = group});
      const MatrixPlan plan{.module = "a.b", .shape = matrix.shape(), .dtype = DType::kF32};
      CHECK(!format->obstacle(plan).has_value());
      const std::vector<Bytes> bytes = format->encode(pool, matrix.view());
      const std::vector<weights::PlannedTensor> parts = format->parts(plan);
      REQUIRE(bytes.size() == parts.size());
      for (std::size_t i = 0; i < parts.size(); ++i) {
        CHECK(std::ssize(bytes[i]) == parts[i].size_bytes);
      }
      CHECK(format->config({}).find("\"group_size\": " + std::to_string(group)) !=
            std::string::npos);
      if (entry.has_pack) {
        const RoundedMatrix rounded = entry.name == "awq" ? round_awq(pool, matrix.view(), group)
                                                          : round_gptq(pool, matrix.view(), group);
        CHECK(format->pack(pool, rounded) == bytes);
      }
    }
  }
  CHECK(num_formats == 3);
}

TEST_CASE("says which matrices a layout cannot hold") {
  const auto obstacle_of = [](const char* name, std::int64_t rows, std::int64_t columns) {
    return find_format(name)
        ->make({})
        ->obstacle({.module = "a.b", .shape = {rows, columns}})
        .value_or("");
  };
  for (const char* const name : {"nf4", "fp4", "int8", "w8a8"}) {
    CHECK(obstacle_of(name, 7, 33).empty());
  }
  for (const char* const name : {"w4a16", "awq"}) {
    CHECK(obstacle_of(name, 8, 192) == "groups of 128 do not divide its 192 columns");
    CHECK(obstacle_of(name, 8, 256).empty());
  }
  CHECK(obstacle_of("w4a16", 7, 256).empty());
  CHECK(obstacle_of("awq", 7, 256) == "its 7 rows are no multiple of 8");
  CHECK(obstacle_of("gptq", 8, 200).empty());
  CHECK_THROWS_WITH_AS(obstacle_of("gptq", 8, 33), doctest::Contains("33 columns"), Error);
  CHECK_THROWS_WITH_AS(obstacle_of("gptq", 9, 128), doctest::Contains("9 rows"), Error);
}

TEST_SUITE_END();

}  // namespace caption::quantise
