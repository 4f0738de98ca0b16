// AWQ checkpoints as AutoAWQ writes them in its version "gemm".
//   <module>.qweight  I32 [K, N / 8]      eight 4-bit codes of neighbouring rows n in a word
//   <module>.qzeros   I32 [K / g, N / 8]  in the same order
//   <module>.scales   F16 [K / g, N]
//   W[n, k] = scales[k / g, n] * (q[k, n] - z[k / g, n])
// Nibble i of a word (bits 4i to 4i + 3) belongs to row 8 * word + {0, 2, 4, 6, 1, 3, 5, 7}[i].
// Sources: arXiv:2306.00978; AutoAWQ 0.2 (awq/modules/linear/gemm.py, awq/utils/packing_utils.py).
//
// Exactness: the matrix is held as scale * (q - 8) + scale * (8 - z). A scale has 11 significant
// bits (F16) or 8 (BF16), and |q - 8|, |8 - z| and |q - z| are at most 15, so all three products
// and the sum are integers below 2^15 times the scale's last place: f32, with 24 bits, holds each
// of them exactly. AutoAWQ's own kernels round the product to f16 afterwards.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/math.h"
#include "weights/internal/code_rows.h"
#include "weights/internal/coded_source.h"
#include "weights/internal/packed_config.h"
#include "weights/quantise.h"

namespace caption::weights {
namespace {

constexpr std::int64_t kCodesPerWord = 8;
// Nibble of a word that holds row n % 8.
constexpr std::array<unsigned, 8> kNibble = {0, 4, 1, 5, 2, 6, 3, 7};

unsigned code_of(std::uint32_t word, std::int64_t row) {
  return word >> (4 * kNibble[static_cast<std::size_t>(row % kCodesPerWord)]) & 15u;
}

constexpr std::int64_t kBlockColumns = 8;
constexpr std::int64_t kSquareColumns = 32;
constexpr std::int64_t kSquareWords = kSquareColumns / kCodesPerWord;

// Transposes the words of 8 columns, which lie `words` apart, to 4 bytes in each of 8 rows.
void copy_block(const std::uint32_t* from, std::int64_t words, std::uint8_t* to,
                std::int64_t row_bytes) {
  std::array<std::uint32_t, kBlockColumns> block;
  for (std::uint32_t& word : block) {
    word = *from;
    from += words;
  }
  block = transpose_nibbles(block);
  for (const unsigned nibble : kNibble) {
    store_word(block[nibble], to);
    to += row_bytes;
  }
}

// Transposes four words of 32 columns, which lie `words` apart, to 16 bytes in each of 32 rows.
// `is_followed`: such a square follows in the file; it is fetched ahead, since the processor does
// not foresee steps of kilobytes.
void copy_square(const std::uint32_t* from, std::int64_t words, bool is_followed, std::uint8_t* to,
                 std::int64_t row_bytes) {
  std::array<std::array<FourWords, kBlockColumns>, kSquareWords> blocks;
  for (auto& block : blocks) {
    for (FourWords& four : block) {
      std::memcpy(&four, from, sizeof(four));
      if (is_followed) __builtin_prefetch(from + kSquareColumns * words);
      from += words;
    }
    block = transpose_nibbles(block);
  }
  for (const unsigned nibble : kNibble) {
    const std::array<FourWords, kSquareWords> rows = transpose_words(
        {blocks[0][nibble], blocks[1][nibble], blocks[2][nibble], blocks[3][nibble]});
    for (std::int64_t word = 0; word < kSquareWords; ++word) {
      const FourWords& row = rows[static_cast<std::size_t>(word)];
      std::memcpy(to + word * kCodesPerWord * row_bytes, &row, sizeof(row));
    }
    to += row_bytes;
  }
}

class AwqTensor final : public CodedTensor {
 public:
  AwqTensor(Module& module, std::int64_t group_size)
      : AwqTensor(read_parts(module, group_size), group_size, module) {}

  Shape shape() const override { return {num_rows_, num_columns_}; }
  std::optional<StoredCodes> codes() const override {
    return StoredCodes{.method = "awq",
                       .format = MatrixFormat::kAwq,
                       .layout = {.is_8_bit = false,
                                  .group_columns = group_columns_,
                                  .has_offsets = has_offsets_,
                                  .numbers = number_dtypes()}};
  }
  QuantisedMatrix read_codes(std::int64_t first, std::int64_t count) const override;
  QuantisedMatrix borrow_codes(std::int64_t first, std::int64_t count) const override;

 private:
  struct Parts {
    Part codes, zeros, scales;
  };

  AwqTensor(Parts parts, std::int64_t group_size, const Module& module)
      : CodedTensor(module.parts()),
        parts_(std::move(parts)),
        num_rows_(parts_.scales.dim(1)),
        num_columns_(parts_.codes.dim(0)),
        group_columns_(group_size < 0 ? num_columns_ : group_size) {
    const auto* const words = parts_.zeros.as<std::uint32_t>();
    has_offsets_ = std::any_of(words, words + parts_.zeros.tensor->num_elements,
                               [](std::uint32_t word) { return word != 0x88888888u; });
  }

  static Parts read_parts(Module& module, std::int64_t group_size);
  NumberDTypes number_dtypes() const {
    return {.scales = parts_.scales.tensor->dtype.value(), .offsets = DType::kI8};
  }
  QuantisedMatrix describe() const;
  void copy_codes(std::int64_t first, std::int64_t count, Tensor& codes) const;

  Parts parts_;
  std::int64_t num_rows_, num_columns_, group_columns_;
  bool has_offsets_ = false;  // whether a zero is not 8
};

AwqTensor::Parts AwqTensor::read_parts(Module& module, std::int64_t group_size) {
  Parts parts;
  parts.codes = module.require("qweight", {"I32"}, 2);
  const std::int64_t columns = parts.codes.dim(0);
  const std::int64_t words = parts.codes.dim(1);
  if (columns == 0 || words == 0) fail_part(parts.codes, "is empty");
  if (group_size > 0 && columns % group_size != 0) {
    fail_part(parts.codes, "has " + std::to_string(columns) + " rows, which groups of " +
                               std::to_string(group_size) + " do not divide");
  }
  const std::int64_t groups = group_size < 0 ? 1 : columns / group_size;
  parts.zeros = module.require_shape("qzeros", {"I32"}, {groups, words});
  parts.scales = module.require_shape("scales", {"F16", "BF16"}, {groups, words * kCodesPerWord});
  return parts;
}

// Squares of 32 rows and columns are transposed at once, then blocks of 8 by 8, then single codes.
void AwqTensor::copy_codes(std::int64_t first, std::int64_t count, Tensor& codes) const {
  const std::int64_t words = num_rows_ / kCodesPerWord;
  const auto* const packed = parts_.codes.as<std::uint32_t>();
  const std::int64_t row_bytes = codes.dim(1);
  auto* const to = codes.as<std::uint8_t>();
  const std::int64_t block_rows =
      first % kCodesPerWord == 0 ? count / kCodesPerWord * kCodesPerWord : 0;
  const std::int64_t block_columns = num_columns_ / kBlockColumns * kBlockColumns;
  const std::int64_t square_rows = block_rows / kSquareColumns * kSquareColumns;
  const std::int64_t square_columns = num_columns_ / kSquareColumns * kSquareColumns;
  // Squares beside each other have parts of the same lines of the processor's caches.
  for (std::int64_t k = 0; k < square_columns; k += kSquareColumns) {
    const bool is_followed = k + 2 * kSquareColumns <= num_columns_;
    for (std::int64_t n = 0; n < square_rows; n += kSquareColumns) {
      copy_square(packed + k * words + (first + n) / kCodesPerWord, words, is_followed,
                  to + n * row_bytes + k / 2, row_bytes);
    }
  }
  for (std::int64_t n = 0; n < block_rows; n += kCodesPerWord) {
    for (std::int64_t k = n < square_rows ? square_columns : 0; k < block_columns;
         k += kBlockColumns) {
      copy_block(packed + k * words + (first + n) / kCodesPerWord, words,
                 to + n * row_bytes + k / 2, row_bytes);
    }
  }
  for (std::int64_t n = 0; n < count; ++n) {
    const std::int64_t row = first + n;
    for (std::int64_t k = n < block_rows ? block_columns : 0; k < num_columns_; ++k) {
      const unsigned code = code_of(packed[k * words + row / kCodesPerWord], row);
      to[n * row_bytes + k / 2] |= static_cast<std::uint8_t>(code << (k % 2 * 4));
    }
  }
}

// Returns what all rows have in common, and no rows.
QuantisedMatrix AwqTensor::describe() const {
  QuantisedMatrix matrix;
  matrix.num_columns = num_columns_;
  matrix.group_columns = group_columns_;
  matrix.codebook = integer_codebook();
  matrix.number_dtypes = number_dtypes();
  return matrix;
}

QuantisedMatrix AwqTensor::read_codes(std::int64_t first, std::int64_t count) const {
  const std::int64_t words = num_rows_ / kCodesPerWord;
  QuantisedMatrix matrix = describe();
  matrix.codes = Tensor::zeros(DType::kU8, {count, divide_up(num_columns_, 2)});
  copy_codes(first, count, matrix.codes);
  const std::int64_t groups = matrix.num_groups();
  matrix.scales = Tensor(DType::kF32, {count, groups});
  if (has_offsets_) matrix.offsets = Tensor(DType::kF32, {count, groups});
  for (std::int64_t g = 0; g < groups; ++g) {  // the scales of a group are adjacent
    for (std::int64_t n = 0; n < count; ++n) {
      const std::int64_t row = first + n;
      const float scale = finite_at(parts_.scales, g * num_rows_ + row);
      matrix.scales.as<float>()[n * groups + g] = scale;
      if (!has_offsets_) continue;
      const std::uint32_t word = parts_.zeros.as<std::uint32_t>()[g * words + row / kCodesPerWord];
      matrix.offsets.as<float>()[n * groups + g] =
          scale * (8.0F - static_cast<float>(code_of(word, row)));
    }
  }
  return matrix;
}

// Words of 32 rows each are packed where they are.
QuantisedMatrix AwqTensor::borrow_codes(std::int64_t first, std::int64_t count) const {
  constexpr std::int64_t kRows = 32;
  constexpr std::int64_t kColumns = 4;
  if (first % kRows != 0 || count % kRows != 0 || num_columns_ % kColumns != 0) {
    return read_codes(first, count);
  }
  QuantisedMatrix matrix = describe();
  matrix.file_codes = {.order = CodeOrder::kWordsOfRows,
                       .num_rows = count,
                       .words = parts_.codes.as<std::uint8_t>() + first / 2,
                       .stride_bytes = num_rows_ / 2};
  matrix.file_scales = {.dtype = parts_.scales.tensor->dtype.value(),
                        .numbers = parts_.scales.as<std::uint16_t>() + first,
                        .row_stride = 1,
                        .group_stride = num_rows_};
  if (!has_offsets_) return matrix;
  matrix.file_scales.zeros = parts_.zeros.as<std::uint32_t>() + first / kCodesPerWord;
  matrix.file_scales.zero_stride = num_rows_ / kCodesPerWord;
  matrix.file_scales.middle = 8;
  return matrix;
}

}  // namespace

CodedTensors find_awq(const Checkpoint& file, const JsonObject& config) {
  // The keys beside bits, group size and layout say how and which modules were quantised; the
  // tensors of the file show both.
  check_packed_config(
      config, {"w_bit", "q_group_size", "zero_point", "version", "format", "checkpoint_format",
               "do_fuse", "fuse_max_seq_len", "modules_to_fuse"});
  read_packed_layout(config, {"version", "format", "checkpoint_format"}, {"gemm", "GEMM"});
  const std::int64_t bits = config.get_int(config.has("bits") ? "bits" : "w_bit", 4, 1, 64);
  if (bits != 4) refuse_value(config, "AWQ with " + std::to_string(bits) + " bits", "4 is");
  const std::int64_t group_size =
      config.get_int(config.has("group_size") ? "group_size" : "q_group_size", 128, -1, 1 << 20);
  require_group_size(config, group_size);
  CodedTensors tensors;
  const std::vector<std::string> modules = modules_with(file, "qweight");
  const RequestedPages requested = request_parts(file, modules, {"qzeros"});
  for (const std::string& name : modules) {
    Module module(file, name);
    tensors.emplace(name + ".weight", std::make_unique<AwqTensor>(module, group_size));
  }
  return tensors;
}

}  // namespace caption::weights
