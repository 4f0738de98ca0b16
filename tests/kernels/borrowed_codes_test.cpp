// Codes that are packed from where a file has them give the bytes of those that are read in rows.
#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/buffer_arena.h"
#include "base/error.h"
#include "base/math.h"
#include "kernels/cpu/packed_weight.h"
#include "kernels/weight.h"
#include "tests/kernels/testing.h"
#include "weights/ggml_type.h"
#include "weights/open_source.h"
#include "weights/quantise.h"
#include "weights/safetensors_writer.h"

namespace caption::kernels::cpu {
namespace {

namespace fs = std::filesystem;

using testing::for_each_stream;

constexpr const char* kWeight = "m.weight";

// A tensor of the file; `dtype` as safetensors spells it. Numbers are finite.
struct FilePart {
  std::string name, dtype;
  std::vector<std::int64_t> extents;
};

struct Matrix {
  std::string config;
  std::vector<FilePart> parts;
  Shape shape;
  std::int64_t group_columns = 0;  // a group's columns in m.g_idx
  bool scatters_columns = true;    // whether m.g_idx does
  bool has_middle_zeros = false;   // whether 8-bit zeros are the codes' middle
};

std::vector<std::byte> random_bytes(const weights::PlannedTensor& tensor, std::mt19937& random) {
  // Exponents below the largest; largest magnitudes are not negative.
  const bool is_magnitude = tensor.name.ends_with("absmax") || tensor.name.ends_with("SCB");
  const unsigned high_bits = is_magnitude ? 0x3Bu : 0xBBu;
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.size_bytes));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    unsigned byte = random() & 255u;
    const bool is_high = (tensor.dtype == "F32" && i % 4 == 3) ||
                         ((tensor.dtype == "F16" || tensor.dtype == "BF16") && i % 2 == 1);
    if (is_high) byte &= high_bits;
    bytes[i] = std::byte(byte);
  }
  return bytes;
}

bool is_of_scales(const std::string& name) {
  return name.ends_with("scales") || name.ends_with("weight_scale") || name.ends_with("absmax");
}

// `ends_badly`: the last of the scales is a NaN.
std::unique_ptr<weights::Source> write_and_open(const Matrix& matrix, bool ends_badly = false) {
  const fs::path folder = fs::path(CAPTION_TEST_TMP) / "borrowed_codes";
  fs::remove_all(folder);
  fs::create_directories(folder);
  std::ofstream(folder / "config.json") << R"({"quantization_config": )" + matrix.config + "}";
  std::vector<weights::PlannedTensor> plan;
  for (const FilePart& part : matrix.parts) {
    plan.push_back(weights::plan_tensor(part.name, part.dtype, part.extents));
  }
  weights::SafetensorsWriter writer(folder / "model.safetensors", plan);
  std::mt19937 random(5);
  for (const weights::PlannedTensor& tensor : plan) {
    std::vector<std::byte> bytes = random_bytes(tensor, random);
    if (tensor.name.ends_with("weight_shape")) {
      const std::int32_t extents[] = {static_cast<std::int32_t>(matrix.shape[0]),
                                      static_cast<std::int32_t>(matrix.shape[1])};
      std::memcpy(bytes.data(), extents, sizeof(extents));
    }
    if (tensor.name.ends_with("bitsandbytes__nf4")) {
      const std::string state = R"({"quant_type": "nf4", "blocksize": 64, "shape": [)" +
                                std::to_string(matrix.shape[0]) + ", " +
                                std::to_string(matrix.shape[1]) + "]}";
      std::fill(bytes.begin(), bytes.end(), std::byte{' '});
      std::memcpy(bytes.data(), state.data(), state.size());
    }
    if (tensor.name.ends_with("quant_map")) {
      std::memcpy(bytes.data(), weights::nf4_codebook().data(), bytes.size());
    }
    if (tensor.name.ends_with("g_idx")) {
      std::vector<std::int32_t> groups;
      constexpr std::int64_t kPrime = 7919;
      for (std::int64_t k = 0; k < matrix.shape[1]; ++k) {
        const std::int64_t place = matrix.scatters_columns ? k * kPrime % matrix.shape[1] : k;
        groups.push_back(static_cast<std::int32_t>(place / matrix.group_columns));
      }
      std::memcpy(bytes.data(), groups.data(), bytes.size());
    }
    if (matrix.has_middle_zeros && tensor.name.ends_with("qzeros")) {
      std::fill(bytes.begin(), bytes.end(), std::byte{0x7F});
    }
    if (ends_badly && is_of_scales(tensor.name)) {
      const std::size_t size = tensor.dtype == "F32" ? 4 : 2;
      std::fill_n(bytes.end() - static_cast<std::ptrdiff_t>(size), size, std::byte{0xFF});
    }
    writer.write(tensor.name, bytes);
  }
  writer.finish();
  return weights::open_source(folder);
}

Matrix awq(std::int64_t n, std::int64_t k, std::int64_t group, const std::string& dtype = "F16") {
  return {.config =
              R"({"quant_method": "awq", "bits": 4, "group_size": )" + std::to_string(group) + "}",
          .parts = {{"m.qweight", "I32", {k, n / 8}},
                    {"m.qzeros", "I32", {k / group, n / 8}},
                    {"m.scales", dtype, {k / group, n}}},
          .shape = {n, k}};
}

Matrix gptq(std::int64_t n, std::int64_t k, std::int64_t group, const std::string& version,
            std::int64_t bits = 4) {
  const std::int64_t codes_per_word = 32 / bits;
  return {.config = R"({"quant_method": "gptq", "bits": )" + std::to_string(bits) +
                    R"(, "checkpoint_format": ")" + version + R"(", "group_size": )" +
                    std::to_string(group) + "}",
          .parts = {{"m.qweight", "I32", {divide_up(k, codes_per_word), n}},
                    {"m.qzeros", "I32", {divide_up(k, group), divide_up(n, codes_per_word)}},
                    {"m.scales", "F16", {divide_up(k, group), n}}},
          .shape = {n, k}};
}

Matrix with_act_order(Matrix matrix, std::int64_t group) {
  matrix.parts.push_back({"m.g_idx", "I32", {matrix.shape[1]}});
  matrix.group_columns = group;
  return matrix;
}

// The same with the groups of columns in order.
Matrix with_groups(Matrix matrix, std::int64_t group) {
  matrix = with_act_order(std::move(matrix), group);
  matrix.scatters_columns = false;
  return matrix;
}

// One group, which is the row.
Matrix gptq_row(std::int64_t n, std::int64_t k) {
  Matrix matrix = with_groups(gptq(n, k, k, "gptq_v2"), k);
  matrix.config = R"({"quant_method": "gptq", "bits": 4, "checkpoint_format": "gptq_v2", )"
                  R"("group_size": -1})";
  return matrix;
}

// Zeros of version 1 with borrows, which words of the source's own hold.
Matrix gptq_of_gptqmodel(std::int64_t n, std::int64_t k, std::int64_t group) {
  Matrix matrix = gptq(n, k, group, "gptq");
  matrix.config.pop_back();
  matrix.config += R"(, "meta": {"quantizer": ["gptqmodel:7.7.0"]}})";
  return matrix;
}

// 8 bits and zeros in the middle: no offsets.
Matrix symmetric_gptq(std::int64_t n, std::int64_t k, std::int64_t group) {
  Matrix matrix = gptq(n, k, group, "gptq", 8);
  matrix.has_middle_zeros = true;
  return matrix;
}

Matrix nf4(std::int64_t n, std::int64_t k) {
  return {.config = R"({"quant_method": "bitsandbytes", "load_in_4bit": true})",
          .parts = {{"m.weight", "U8", {n * k / 2, 1}},
                    {"m.weight.absmax", "F32", {(n * k + 63) / 64}},
                    {"m.weight.quant_map", "F32", {16}},
                    {"m.weight.quant_state.bitsandbytes__nf4", "U8", {80}}},
          .shape = {n, k}};
}

Matrix llm_int8(std::int64_t n, std::int64_t k) {
  return {.config = R"({"quant_method": "bitsandbytes", "load_in_8bit": true})",
          .parts = {{"m.weight", "I8", {n, k}}, {"m.SCB", "F32", {n}}},
          .shape = {n, k}};
}

Matrix compressed(std::int64_t n, std::int64_t k, std::int64_t bits, const std::string& dtype) {
  const bool is_packed = bits == 4;
  const std::string strategy =
      is_packed ? R"("group", "group_size": 32)" : R"("channel", "group_size": null)";
  Matrix matrix{
      .config = R"({"quant_method": "compressed-tensors", "format": ")" +
                std::string(is_packed ? "pack" : "int") +
                R"(-quantized", "config_groups": {"group_0": {"targets": ["Linear"], "weights": )" +
                R"({"num_bits": )" + std::to_string(bits) +
                R"(, "type": "int", "symmetric": true, "strategy": )" + strategy + "}}}}",
      .parts = {},
      .shape = {n, k}};
  if (is_packed) {
    matrix.parts = {{"m.weight_packed", "I32", {n, (k + 7) / 8}},
                    {"m.weight_shape", "I32", {2}},
                    {"m.weight_scale", dtype, {n, k / 32}}};
  } else {
    matrix.parts = {{"m.weight", "I8", {n, k}}, {"m.weight_scale", dtype, {n, 1}}};
  }
  return matrix;
}

std::span<const std::byte> bytes_of(ConstView view) {
  if (view.empty()) return {};
  return {static_cast<const std::byte*>(view.raw()),
          static_cast<std::size_t>(view.num_elements()) * dtype_size_bytes(view.dtype())};
}

void check_equal(ConstView a, ConstView b) {
  REQUIRE(a.empty() == b.empty());
  if (a.empty()) return;
  REQUIRE(a.shape() == b.shape());
  REQUIRE(a.dtype() == b.dtype());
  const auto first = bytes_of(a);
  const auto second = bytes_of(b);
  CHECK(std::equal(first.begin(), first.end(), second.begin(), second.end()));
}

void check_equal(const Weight& a, const Weight& b) {
  const PackedWeight& first = PackedWeight::of(a);
  const PackedWeight& second = PackedWeight::of(b);
  CHECK(first.describe() == second.describe());
  check_equal(first.panels(), second.panels());
  REQUIRE(first.scales().dtype() == second.scales().dtype());
  REQUIRE(first.offsets().dtype() == second.offsets().dtype());
  check_equal(first.scale_units(), second.scale_units());
  check_equal(first.offset_units(), second.offset_units());
  // A multiple of a scale or a unit of zero may be any number.
  if (first.scales().dtype() != DType::kI8) check_equal(first.scales(), second.scales());
  if (first.offsets().dtype() != DType::kI8) check_equal(first.offsets(), second.offsets());
  CHECK(first.codebook().size() == second.codebook().size());
  std::vector<float> row(static_cast<std::size_t>(a.num_columns()));
  std::vector<float> other(row.size());
  std::int64_t num_different = 0;
  for (std::int64_t n = 0; n < a.num_features(); ++n) {
    first.unpack_row(n, row.data());
    second.unpack_row(n, other.data());
    num_different += row == other ? 0 : 1;
  }
  CHECK(num_different == 0);
}

// Places the matrix in both ways; `is_borrowed`: whether the file's codes of 32 rows stay there.
void check_matrix(const Matrix& matrix, MatrixFormat format, bool is_borrowed) {
  CAPTURE(matrix.config);
  CAPTURE(matrix.shape.to_string());
  const auto source = write_and_open(matrix);
  const Shape shape = matrix.shape;
  REQUIRE(source->codes_of(kWeight).has_value());
  const auto read = [&](std::int64_t first, std::int64_t count) {
    return source->read_codes(kWeight, shape, first, count);
  };
  const auto borrow = [&](std::int64_t first, std::int64_t count) {
    return source->borrow_codes(kWeight, shape, first, count);
  };
  const bool has_file_codes =
      shape[0] >= kPanelFeatures && !borrow(0, kPanelFeatures).file_codes.empty();
  CHECK(has_file_codes == is_borrowed);
  for_each_stream([&](Stream& stream) {
    BufferArena arena(stream.pool());
    const Weight from_rows = place_quantised(stream, format, shape[0], read);
    stream.set_arena(&arena);
    const Weight from_file = place_quantised(stream, format, shape[0], QuantisedRows(read, borrow));
    stream.set_arena(nullptr);
    check_equal(from_file, from_rows);
  });
}

}  // namespace

TEST_SUITE_BEGIN("kernels/borrowed_codes");

TEST_CASE("codes of files are packed as their rows are") {
  for (const std::int64_t n : {32, 96, 136, 160}) {
    for (const std::int64_t k : {32, 64, 320}) {
      check_matrix(awq(n, k, 32), MatrixFormat::kInt4, true);
      check_matrix(gptq(n, k, 32, "gptq"), MatrixFormat::kInt4, true);
      check_matrix(gptq(n, k, 32, "gptq_v2"), MatrixFormat::kInt4, true);
      check_matrix(gptq_of_gptqmodel(n, k, 32), MatrixFormat::kInt4, true);
      check_matrix(with_act_order(gptq(n, k, 32, "gptq"), 32), MatrixFormat::kInt4, true);
      check_matrix(gptq(n, k, 32, "gptq", 8), MatrixFormat::kInt8, false);
      check_matrix(symmetric_gptq(n, k, 32), MatrixFormat::kInt8, false);
      check_matrix(with_act_order(symmetric_gptq(n, k, 32), 32), MatrixFormat::kInt8, false);
      check_matrix(nf4(n, k), MatrixFormat::kNf4, true);
      check_matrix(llm_int8(n, k), MatrixFormat::kInt8, true);
      check_matrix(compressed(n, k, 4, "BF16"), MatrixFormat::kInt4, true);
      check_matrix(compressed(n, k, 4, "F32"), MatrixFormat::kInt4, true);
      check_matrix(compressed(n, k, 8, "F16"), MatrixFormat::kInt8Row, true);
    }
  }
  check_matrix(awq(40, 76, 38), MatrixFormat::kInt4, true);
  check_matrix(awq(160, 512, 256), MatrixFormat::kInt4, true);
  check_matrix(awq(136, 256, 32, "BF16"), MatrixFormat::kInt4, true);
  check_matrix(awq(40, 74, 74), MatrixFormat::kInt4, false);
  check_matrix(gptq(40, 72, 32, "gptq"), MatrixFormat::kInt4, true);
  check_matrix(with_act_order(gptq(40, 72, 32, "gptq_v2"), 32), MatrixFormat::kInt4, true);
  // One panel of several, and three, are packed at a time.
  check_matrix(with_act_order(gptq(128, 8712, 128, "gptq"), 128), MatrixFormat::kInt4, true);
  check_matrix(with_act_order(gptq(160, 5000, 128, "gptq"), 128), MatrixFormat::kInt4, true);
  check_matrix(symmetric_gptq(68, 76, 32), MatrixFormat::kInt8, false);
  // Words with codes or zeros left over.
  check_matrix(gptq(67, 72, 32, "gptq"), MatrixFormat::kInt4, true);
  check_matrix(gptq_of_gptqmodel(67, 72, 32), MatrixFormat::kInt4, true);
  for (const std::int64_t k : {44, 45, 77}) {
    check_matrix(with_groups(gptq(67, k, 32, "gptq"), 32), MatrixFormat::kInt4, false);
    check_matrix(with_groups(gptq_of_gptqmodel(67, k, 32), 32), MatrixFormat::kInt4, false);
    check_matrix(with_act_order(gptq(67, k, 32, "gptq_v2"), 32), MatrixFormat::kInt4, false);
    check_matrix(gptq_row(67, k), MatrixFormat::kInt4, false);
    check_matrix(with_groups(symmetric_gptq(67, k, 32), 32), MatrixFormat::kInt8, false);
    check_matrix(with_act_order(gptq(67, k, 32, "gptq", 8), 32), MatrixFormat::kInt8, false);
  }
  check_matrix(nf4(33, 80), MatrixFormat::kNf4, true);
  check_matrix(llm_int8(45, 77), MatrixFormat::kInt8, true);
  check_matrix(compressed(45, 77, 8, "F16"), MatrixFormat::kInt8Row, true);
}

TEST_CASE("a scale of a file that is not finite is refused by the name of its tensor") {
  struct Bad {
    Matrix matrix;
    MatrixFormat format;
  };
  const Bad bad[] = {{awq(96, 64, 32), MatrixFormat::kInt4},
                     {gptq(96, 64, 32, "gptq"), MatrixFormat::kInt4},
                     {with_act_order(gptq(96, 64, 32, "gptq"), 32), MatrixFormat::kInt4},
                     {symmetric_gptq(96, 64, 32), MatrixFormat::kInt8},
                     {nf4(96, 640), MatrixFormat::kNf4},
                     {compressed(96, 320, 4, "BF16"), MatrixFormat::kInt4},
                     {compressed(96, 64, 8, "F16"), MatrixFormat::kInt8Row}};
  for (const auto& [matrix, format] : bad) {
    CAPTURE(matrix.config);
    const Shape shape = matrix.shape;
    const auto source = write_and_open(matrix, true);
    const auto read = [&](std::int64_t first, std::int64_t count) {
      return source->read_codes(kWeight, shape, first, count);
    };
    const auto borrow = [&](std::int64_t first, std::int64_t count) {
      return source->borrow_codes(kWeight, shape, first, count);
    };
    for_each_stream([&](Stream& stream) {
      try {
        place_quantised(stream, format, shape[0], QuantisedRows(read, borrow));
        FAIL("placed");
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::kBadModel);
        const std::string message = error.what();
        CHECK(message.find("\"m.") != std::string::npos);
        CHECK(message.find("not finite") != std::string::npos);
      }
    });
  }
}

namespace {

// A type of blocks, and the bytes of a block that are the upper halves of its F16 numbers.
struct BlockType {
  weights::GgmlType type;
  MatrixFormat format;
  std::vector<std::size_t> upper_bytes;

  const weights::GgmlTypeTraits& traits() const {
    return *weights::find_ggml_type(static_cast<std::uint32_t>(type));
  }
};

const BlockType kBlockTypes[] = {
    {weights::GgmlType::kQ4_0, MatrixFormat::kInt4, {1}},
    {weights::GgmlType::kIQ4_NL, MatrixFormat::kInt4, {1}},
    {weights::GgmlType::kQ4_1, MatrixFormat::kInt4, {1, 3}},
    {weights::GgmlType::kQ5_0, MatrixFormat::kInt8, {1}},
    {weights::GgmlType::kQ5_1, MatrixFormat::kInt8, {1, 3}},
    {weights::GgmlType::kQ8_0, MatrixFormat::kInt8, {1}},
    {weights::GgmlType::kQ4_K, MatrixFormat::kInt4, {1, 3}},
    {weights::GgmlType::kQ5_K, MatrixFormat::kInt8, {1, 3}},
    {weights::GgmlType::kQ6_K, MatrixFormat::kInt8, {209}},
};

// Rows of blocks, every second of which is not used; all F16 numbers are finite, but for number
// `not_finite` of the last block where that is given.
class Blocks {
 public:
  Blocks(const BlockType& type, const Shape& shape,
         std::optional<std::size_t> not_finite = std::nullopt)
      : type_(type),
        shape_(shape),
        row_bytes_(shape[1] / type.traits().block_elements * type.traits().block_bytes) {
    std::mt19937 random(9);
    bytes_.resize(static_cast<std::size_t>(2 * shape[0] * row_bytes_));
    for (std::byte& byte : bytes_) byte = std::byte(random() & 255u);
    const auto block_bytes = static_cast<std::size_t>(type.traits().block_bytes);
    for (std::size_t block = 0; block < bytes_.size(); block += block_bytes) {
      for (const std::size_t at : type.upper_bytes) bytes_[block + at] &= std::byte{0xBB};
    }
    if (!not_finite) return;
    const std::size_t end = bytes_.size() - static_cast<std::size_t>(row_bytes_);
    bytes_[end - block_bytes + type.upper_bytes[*not_finite]] |= std::byte{0x7C};
  }

  QuantisedMatrix read(std::int64_t first, std::int64_t count) const {
    std::vector<std::byte> rows;
    for (std::int64_t n = first; n < first + count; ++n) {
      rows.insert(rows.end(), begin(n), begin(n) + row_bytes_);
    }
    return weights::codes_of_rows(
        {.type = type_.type, .bytes = rows, .num_columns = shape_[1], .first = 0, .count = count});
  }
  QuantisedMatrix borrow(std::int64_t first, std::int64_t count) const {
    if (count % kPanelFeatures != 0) return read(first, count);
    const bool is_4_bit = type_.format == MatrixFormat::kInt4;
    QuantisedMatrix matrix;
    matrix.num_columns = shape_[1];
    matrix.group_columns = weights::code_layout_of(type_.type)->group_columns;
    matrix.number_dtypes = weights::code_layout_of(type_.type)->numbers;
    if (is_4_bit) matrix.codebook = *weights::codebook_of(type_.type);
    matrix.file_codes = {.order = CodeOrder::kBlocks,
                         .blocks = *weights::code_blocks_of(type_.type),
                         .is_4_bit = is_4_bit,
                         .num_rows = count};
    for (std::int64_t n = first; n < first + count; ++n) {
      matrix.file_codes.rows.push_back(reinterpret_cast<const std::uint8_t*>(begin(n)));
    }
    return matrix;
  }
  QuantisedRows rows() const {
    return {[this](std::int64_t first, std::int64_t count) { return read(first, count); },
            [this](std::int64_t first, std::int64_t count) { return borrow(first, count); }};
  }

 private:
  const std::byte* begin(std::int64_t n) const { return bytes_.data() + 2 * n * row_bytes_; }

  BlockType type_;
  Shape shape_;
  std::int64_t row_bytes_;
  std::vector<std::byte> bytes_;
};

}  // namespace

TEST_CASE("blocks are packed as their rows are") {
  for (const BlockType& type : kBlockTypes) {
    CAPTURE(type.traits().name);
    for (const std::int64_t n : {32, 64, 150, 160}) {
      for (const std::int64_t k : {64, 128, 256, 448, 768}) {
        if (k % type.traits().block_elements != 0) continue;
        CAPTURE(n);
        CAPTURE(k);
        const Blocks blocks(type, {n, k});
        const auto read = [&](std::int64_t first, std::int64_t count) {
          return blocks.read(first, count);
        };
        for_each_stream([&](Stream& stream) {
          check_equal(place_quantised(stream, type.format, n, blocks.rows()),
                      place_quantised(stream, type.format, n, read));
        });
      }
    }
  }
}

TEST_CASE("a scale or an offset of a block that is not finite is refused as in rows") {
  for (const BlockType& type : kBlockTypes) {
    CAPTURE(type.traits().name);
    for (std::size_t i = 0; i < type.upper_bytes.size(); ++i) {
      CAPTURE(i);
      const Blocks blocks(type, {96, 256}, i);
      for_each_stream([&](Stream& stream) {
        try {
          place_quantised(stream, type.format, 96, blocks.rows());
          FAIL("placed");
        } catch (const Error& error) {
          CHECK(error.code() == ErrorCode::kBadModel);
          CHECK(std::string(error.what()).starts_with("a weight is not a finite number"));
        }
      });
    }
  }
}

TEST_SUITE_END();

}  // namespace caption::kernels::cpu
