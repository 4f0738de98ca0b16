// The codes of GPTQ matrices of many words, in order and with act-order, against the words of the
// file, one code at a time.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/weights/quantised_files.h"
#include "weights/safetensors_writer.h"

namespace caption::weights {
namespace {

using namespace testing;

constexpr std::int64_t kGroupColumns = 32;

// A matrix [rows, columns] with random codes.
struct Matrix {
  Matrix(std::int64_t num_rows, std::int64_t num_columns, unsigned num_bits, bool is_in_order)
      : rows(num_rows),
        columns(num_columns),
        bits(num_bits),
        words(static_cast<std::size_t>(rows * words_for(columns))) {
    std::mt19937 random(static_cast<unsigned>(rows * 4096 + columns));
    for (std::uint32_t& word : words) word = static_cast<std::uint32_t>(random());
    for (std::int64_t k = 0; k < columns; ++k) {
      group_of.push_back(static_cast<std::int32_t>(k / kGroupColumns));
    }
    if (!is_in_order) std::shuffle(group_of.begin(), group_of.end(), random);
  }

  // Words that hold so many fields.
  std::int64_t words_for(std::int64_t fields) const { return (fields * bits + 31) / 32; }
  // The field of the words [ceil(columns / fields), rows].
  unsigned code(std::int64_t n, std::int64_t k) const {
    const std::int64_t fields = 32 / bits;
    const std::uint32_t word = words[static_cast<std::size_t>(k / fields * rows + n)];
    return word >> (static_cast<unsigned>(k % fields) * bits) & ((1u << bits) - 1u);
  }

  std::unique_ptr<Source> open() const {
    const std::filesystem::path folder = std::filesystem::path(CAPTION_TEST_TMP) / "gptq_words";
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "config.json")
        << R"({"quantization_config": {"quant_method": "gptq", "bits": )" << bits
        << R"(, "group_size": )" << kGroupColumns << R"(, "desc_act": true}})";
    const std::int64_t groups = (columns + kGroupColumns - 1) / kGroupColumns;
    const std::vector<std::uint32_t> zeros(static_cast<std::size_t>(groups * words_for(rows)));
    const std::vector<std::uint16_t> scales(static_cast<std::size_t>(groups * rows), 0x3C00);
    SafetensorsWriter writer(folder / "model.safetensors",
                             {plan_tensor("a.b.qweight", "I32", {words_for(columns), rows}),
                              plan_tensor("a.b.qzeros", "I32", {groups, words_for(rows)}),
                              plan_tensor("a.b.scales", "F16", {groups, rows}),
                              plan_tensor("a.b.g_idx", "I32", {columns})});
    writer.write("a.b.qweight", std::as_bytes(std::span(words)));
    writer.write("a.b.qzeros", std::as_bytes(std::span(zeros)));
    writer.write("a.b.scales", std::as_bytes(std::span(scales)));
    writer.write("a.b.g_idx", std::as_bytes(std::span(group_of)));
    writer.finish();
    return open_source(folder);
  }

  std::int64_t rows, columns;
  unsigned bits;
  std::vector<std::uint32_t> words;
  std::vector<std::int32_t> group_of;
};

// The code of stored column k as the file has it.
unsigned stored_code(const QuantisedMatrix& matrix, std::int64_t n, std::int64_t k) {
  if (!matrix.is_4_bit()) {
    return static_cast<unsigned>(matrix.codes.as<std::int8_t>()[n * matrix.num_columns + k] + 128);
  }
  const unsigned both = matrix.codes.as<std::uint8_t>()[n * matrix.codes.dim(1) + k / 2];
  return k % 2 == 0 ? both & 15u : both >> 4u;
}

TEST_SUITE_BEGIN("weights/gptq_words");

TEST_CASE("codes are those of the words, whichever rows are read together") {
  // Around the squares of 16 words, the 32 rows and the 32 columns that are moved together, and
  // with parts of words.
  for (const auto& [rows, columns] : {std::pair{8, 8},
                                      {32, 32},
                                      {40, 72},
                                      {264, 328},
                                      {136, 512},
                                      {64, 1000},
                                      {96, 40},
                                      {67, 331},
                                      {96, 44},
                                      {3, 5}}) {
    for (const unsigned bits : {4u, 8u}) {
      for (const bool is_in_order : {true, false}) {
        CAPTURE(rows);
        CAPTURE(columns);
        CAPTURE(bits);
        CAPTURE(is_in_order);
        const Matrix matrix(rows, columns, bits, is_in_order);
        const auto source = matrix.open();
        const bool has_one_group = columns <= kGroupColumns;
        for (const auto& [first, most] :
             {std::pair{0, 264}, {0, 128}, {3, 37}, {5, 1}, {7, 64}, {1, 32}, {32, 33}, {0, 31}}) {
          if (first >= rows) continue;
          CAPTURE(first);
          const std::int64_t count = std::min(most, rows - first);
          const QuantisedMatrix found =
              source->read_codes(kCodedWeight, {rows, columns}, first, count);
          REQUIRE(found.num_rows() == count);
          REQUIRE((found.column_order == nullptr) == (is_in_order || has_one_group));
          std::int64_t unequal = 0;
          for (std::int64_t n = 0; n < count; ++n) {
            for (std::int64_t k = 0; k < columns; ++k) {
              unequal +=
                  stored_code(found, n, k) == matrix.code(first + n, found.column_of(k)) ? 0 : 1;
            }
          }
          CHECK(unequal == 0);
          std::int32_t last = 0;
          for (std::int64_t k = 0; k < columns; ++k) {
            const std::int32_t group =
                matrix.group_of[static_cast<std::size_t>(found.column_of(k))];
            CHECK(group >= last);
            last = group;
          }
        }
      }
    }
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace caption::weights
