// GPTQ checkpoints of 4 and 8 bits as AutoGPTQ, GPTQModel and optimum write them.
//   <module>.qweight  I32 [ceil(K / p), N]            p = 32 / bits codes of neighbouring columns k
//   <module>.qzeros   I32 [ceil(K / g), ceil(N / p)]  p zeros of neighbouring rows n
//   <module>.scales   F16 [ceil(K / g), N]
//   <module>.g_idx    I32 [K]                         the group of column k; absent: k / g
//   W[n, k] = scales[g_idx[k], n] * (q[k, n] - z[g_idx[k], n])
// The lowest bits of a word come first; what the last word has beyond K or N is not read. Without
// g_idx, K is a multiple of p. checkpoint_format "gptq_v2" stores z, and "gptq" (v1, the
// default) z - 1. What v1 makes of z = 0 depends on the library that meta.quantizer names:
// GPTQModel subtracts 1 from the fields of a whole word at once, so that a field of z = 0 borrows
// from the next; adding the same word gives all zeros back. That is so from its version 0.9.0 on,
// and the first of several entries of the library counts. AutoGPTQ, which writes no meta, adds 1 to
// each field alone: all ones are the zero 2^bits. With act-order g_idx is not k / g: the columns
// are then held sorted by group, and the column order says where each comes from. Sources:
// arXiv:2210.17323; AutoGPTQ 0.7.1 (nn_modules/qlinear/qlinear_cuda.py); GPTQModel 7.7.0
// (utils/model.py, convert_gptq_v1_to_v2_format_module; quantization/config.py,
// is_quantized_by_gptaq; nn_modules/qlinear/__init__.py, pack_original).
//
// Exactness: the matrix is held as scale * (q - m) + scale * (m - z) with m = 2^(bits - 1). A scale
// has 11 significant bits (F16) or 8 (BF16), and |q - m|, |m - z| and |q - z| are at most 256, so
// all three products and the sum are integers of at most 2^19 times the scale's last place: f32,
// with 24 bits, holds each of them exactly.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "base/math.h"
#include "weights/internal/code_rows.h"
#include "weights/internal/coded_source.h"
#include "weights/internal/gptq_config.h"
#include "weights/quantise.h"

namespace caption::weights {
namespace {

// Field i of successive words.
unsigned field_at(const std::uint32_t* words, std::int64_t stride, std::int64_t i,
                  const GptqFormat& format) {
  const std::int64_t per_word = format.codes_per_word();
  const std::uint32_t word = words[i / per_word * stride];
  return word >> (static_cast<unsigned>(i % per_word) * format.bits) & ((1u << format.bits) - 1u);
}

class GptqTensor final : public CodedTensor {
 public:
  GptqTensor(Module& module, const GptqFormat& format, KnownOrders& orders)
      : GptqTensor(read_parts(module, format), format, module) {
    if (parts_.groups) {
      column_order_ = order_by_group(*parts_.groups, parts_.scales.dim(0), group_columns_, orders);
    }
    if (format_.stores_zeros_less_one && format_.has_borrows) restore_borrows();
    has_offsets_ = has_other_zeros();
  }

  Shape shape() const override { return {num_rows_, num_columns_}; }
  std::optional<StoredCodes> codes() const override {
    return StoredCodes{.method = "gptq",
                       .format = format_.bits == 4 ? MatrixFormat::kAwq : MatrixFormat::kInt8,
                       .layout = {.is_8_bit = format_.bits == 8,
                                  .group_columns = group_columns_,
                                  .has_offsets = has_offsets_,
                                  .has_column_order = column_order_ != nullptr,
                                  .numbers = number_dtypes()}};
  }
  QuantisedMatrix read_codes(std::int64_t first, std::int64_t count) const override;
  QuantisedMatrix borrow_codes(std::int64_t first, std::int64_t count) const override;

 private:
  struct Parts {
    Part codes, zeros, scales;
    std::optional<Part> groups;
  };

  GptqTensor(Parts parts, const GptqFormat& format, const Module& module)
      : CodedTensor(module.parts()),
        parts_(std::move(parts)),
        format_(format),
        num_rows_(parts_.scales.dim(1)),
        num_columns_(parts_.groups ? parts_.groups->dim(0)
                                   : parts_.codes.dim(0) * format.codes_per_word()),
        group_columns_(format.group_size < 0 ? num_columns_ : format.group_size) {}

  static Parts read_parts(Module& module, const GptqFormat& format);
  void restore_borrows();
  bool has_other_zeros() const;  // than the middle
  const std::uint32_t* zero_words() const {
    return restored_zeros_.empty() ? parts_.zeros.as<std::uint32_t>() : restored_zeros_.data();
  }
  std::int32_t zero_at(std::int64_t group, std::int64_t row) const;
  void copy_words(const std::uint32_t* from, std::int64_t count, std::uint32_t flipped,
                  std::uint8_t* to, std::int64_t row_bytes) const;
  void copy_last_word(const std::uint32_t* from, std::int64_t count, std::uint32_t flipped,
                      std::uint8_t* to, std::int64_t row_bytes) const;
  // Words of which every code is that of a column.
  std::int64_t num_full_words() const { return num_columns_ / format_.codes_per_word(); }
  bool has_full_words() const { return num_columns_ % format_.codes_per_word() == 0; }
  void read_scales(std::int64_t first, QuantisedMatrix& matrix) const;
  Tensor read_rows(std::int64_t first, std::int64_t count) const;  // rows of codes
  // The middle less a zero of 8 bits may be 128.
  NumberDTypes number_dtypes() const {
    return {.scales = parts_.scales.tensor->dtype.value(),
            .offsets = format_.bits == 4 ? DType::kI8 : DType::kF32};
  }
  QuantisedMatrix describe() const;

  Parts parts_;
  GptqFormat format_;
  std::int64_t num_rows_, num_columns_, group_columns_;
  // The words of zeros as "gptq_v2" stores them, where the file's have borrows; otherwise empty.
  std::vector<std::uint32_t> restored_zeros_;
  bool has_offsets_ = false;  // whether a zero is not the middle
  ColumnOrder column_order_;
};

GptqTensor::Parts GptqTensor::read_parts(Module& module, const GptqFormat& format) {
  Parts parts;
  parts.codes = module.require("qweight", {"I32"}, 2);
  // The axes of an empty tensor may be of any length.
  if (parts.codes.tensor->num_elements == 0) fail_part(parts.codes, "is empty");
  const std::int64_t per_word = format.codes_per_word();
  const std::int64_t words = parts.codes.dim(0);
  const std::int64_t rows = parts.codes.dim(1);
  parts.groups = format.has_group_of_column ? module.require("g_idx", {"I32"}, 1)
                                            : module.find("g_idx", {"I32"}, 1);
  const std::int64_t columns = parts.groups ? parts.groups->dim(0) : words * per_word;
  if (divide_up(columns, per_word) != words) {
    fail_part(*parts.groups, "has " + std::to_string(columns) + " elements; one for each of " +
                                 std::to_string((words - 1) * per_word + 1) + " to " +
                                 std::to_string(words * per_word) + " columns was expected, as " +
                                 module.tensor("qweight") + " has " + counted(words, "word") +
                                 " for a row");
  }
  const std::int64_t groups = format.group_size < 0 ? 1 : divide_up(columns, format.group_size);
  parts.zeros = module.require_shape("qzeros", {"I32"}, {groups, divide_up(rows, per_word)});
  parts.scales = module.require_shape("scales", {"F16", "BF16"}, {groups, rows});
  return parts;
}

bool GptqTensor::has_other_zeros() const {
  const std::int64_t per_row = parts_.zeros.dim(1);
  const auto of_last_word =
      static_cast<unsigned>(num_rows_ - (per_row - 1) * format_.codes_per_word());
  const std::uint32_t last_mask = ~std::uint32_t{0} >> (32 - of_last_word * format_.bits);
  const std::uint32_t middles = format_.word_of_middle_zeros();
  const std::uint32_t* word = zero_words();
  for (std::int64_t g = 0; g < parts_.zeros.dim(0); ++g, word += per_row) {
    const std::uint32_t* const last = word + per_row - 1;
    if (std::any_of(word, last, [&](std::uint32_t one) { return one != middles; })) return true;
    if (((*last ^ middles) & last_mask) != 0) return true;
  }
  return false;
}

// Only a field of all ones carries; words without any are read field by field, where they are.
void GptqTensor::restore_borrows() {
  const auto* const words = parts_.zeros.as<std::uint32_t>();
  const auto count = static_cast<std::size_t>(parts_.zeros.tensor->num_elements);
  const std::uint32_t all_ones = (1u << format_.bits) - 1u;
  const auto has_field_of_ones = [&](std::uint32_t word) {
    for (unsigned shift = 0; shift < 32; shift += format_.bits) {
      if ((word >> shift & all_ones) == all_ones) return true;
    }
    return false;
  };
  if (std::none_of(words, words + count, has_field_of_ones)) return;
  restored_zeros_.assign(words, words + count);
  for (std::uint32_t& word : restored_zeros_) word += format_.word_of_ones();
  format_.stores_zeros_less_one = false;
}

std::int32_t GptqTensor::zero_at(std::int64_t group, std::int64_t row) const {
  const std::uint32_t* const words = zero_words() + group * parts_.zeros.dim(1);
  const auto field = static_cast<std::int32_t>(field_at(words, 1, row, format_));
  return format_.stores_zeros_less_one ? field + 1 : field;
}

void GptqTensor::read_scales(std::int64_t first, QuantisedMatrix& matrix) const {
  const std::int64_t rows = matrix.num_rows();
  const std::int64_t groups = matrix.num_groups();
  matrix.scales = Tensor(DType::kF32, {rows, groups});
  if (has_offsets_) matrix.offsets = Tensor(DType::kF32, {rows, groups});
  for (std::int64_t g = 0; g < groups; ++g) {  // the scales of a group are adjacent
    for (std::int64_t n = 0; n < rows; ++n) {
      const float scale = finite_at(parts_.scales, g * num_rows_ + first + n);
      matrix.scales.as<float>()[n * groups + g] = scale;
      if (!has_offsets_) continue;
      matrix.offsets.as<float>()[n * groups + g] =
          scale * static_cast<float>(format_.middle() - zero_at(g, first + n));
    }
  }
}

// Squares of so many words and rows are transposed at once: a line of the processor's caches of
// each row of words becomes one of each row of the matrix.
constexpr std::int64_t kSquare = 16;

// Words of a file [words, rows] and the rows that they become.
struct WordSquare {
  const std::uint32_t* from;
  std::int64_t stride;  // words
  std::uint32_t flipped;
  std::uint8_t* to;
  std::int64_t row_bytes;
};

// Transposes a square, which may be cut off to fewer words and rows.
void copy_square(const WordSquare& square, std::int64_t num_words, std::int64_t num_rows) {
  constexpr std::int64_t kBlock = 4;
  const std::int64_t block_words = num_words / kBlock * kBlock;
  const std::int64_t block_rows = num_rows / kBlock * kBlock;
  for (std::int64_t i = 0; i < block_words; i += kBlock) {
    for (std::int64_t n = 0; n < block_rows; n += kBlock) {
      std::array<FourWords, kBlock> rows;
      for (std::size_t row = 0; row < kBlock; ++row) {
        std::memcpy(&rows[row],
                    square.from + (i + static_cast<std::int64_t>(row)) * square.stride + n,
                    sizeof(rows[row]));
        rows[row] ^= square.flipped;
      }
      rows = transpose_words(rows);
      for (std::size_t row = 0; row < kBlock; ++row) {
        std::memcpy(square.to + (n + static_cast<std::int64_t>(row)) * square.row_bytes + 4 * i,
                    &rows[row], sizeof(rows[row]));
      }
    }
  }
  for (std::int64_t n = 0; n < num_rows; ++n) {
    for (std::int64_t i = n < block_rows ? block_words : 0; i < num_words; ++i) {
      store_word(square.from[i * square.stride + n] ^ square.flipped,
                 square.to + n * square.row_bytes + 4 * i);
    }
  }
}

// Fetches parts [count] of rows of words, in the order of the file: the processor does not foresee
// steps of kilobytes.
void fetch_words(const std::uint32_t* from, std::int64_t stride, std::int64_t num_rows,
                 std::int64_t count) {
  constexpr std::int64_t kLineWords = 16;
  for (std::int64_t row = 0; row < num_rows; ++row) {
    for (std::int64_t n = 0; n < count; n += kLineWords) {
      __builtin_prefetch(from + row * stride + n);
    }
  }
}

// Transposes the full words of `count` rows of the matrix, which are columns in the file.
void GptqTensor::copy_words(const std::uint32_t* from, std::int64_t count, std::uint32_t flipped,
                            std::uint8_t* to, std::int64_t row_bytes) const {
  const std::int64_t num_words = num_full_words();
  for (std::int64_t i = 0; i < num_words; i += kSquare) {
    const std::int64_t next = i + kSquare;
    const std::int64_t num_next = std::clamp<std::int64_t>(num_words - next, 0, kSquare);
    for (std::int64_t n = 0; n < count; n += kSquare) {
      // The rows of words that follow, each square its share.
      const std::int64_t end = std::min(count, n + kSquare);
      const std::int64_t first = num_next * n / count;
      fetch_words(from + (next + first) * num_rows_, num_rows_, num_next * end / count - first,
                  count);
      copy_square({.from = from + i * num_rows_ + n,
                   .stride = num_rows_,
                   .flipped = flipped,
                   .to = to + n * row_bytes + 4 * i,
                   .row_bytes = row_bytes},
                  std::min(kSquare, num_words - i), end - n);
    }
  }
}

// Copies the codes of columns beyond the full words, if there are any, for `count` rows.
void GptqTensor::copy_last_word(const std::uint32_t* from, std::int64_t count,
                                std::uint32_t flipped, std::uint8_t* to,
                                std::int64_t row_bytes) const {
  if (has_full_words()) return;
  const std::int64_t num_words = num_full_words();
  const auto left = static_cast<unsigned>(num_columns_ - num_words * format_.codes_per_word());
  const std::uint32_t mask = ~std::uint32_t{0} >> (32 - left * format_.bits);
  constexpr std::int64_t kWordBytes = 4;
  const auto num_bytes = static_cast<std::size_t>(row_bytes - num_words * kWordBytes);
  for (std::int64_t n = 0; n < count; ++n) {
    const std::uint32_t word = (from[num_words * num_rows_ + n] ^ flipped) & mask;
    std::memcpy(to + n * row_bytes + num_words * kWordBytes, &word, num_bytes);
  }
}

// Returns what all rows have in common, and no rows.
QuantisedMatrix GptqTensor::describe() const {
  QuantisedMatrix matrix;
  matrix.num_columns = num_columns_;
  matrix.group_columns = group_columns_;
  matrix.column_order = column_order_;
  matrix.number_dtypes = number_dtypes();
  if (format_.bits == 4) matrix.codebook = integer_codebook();
  return matrix;
}

Tensor GptqTensor::read_rows(std::int64_t first, std::int64_t count) const {
  const bool is_4_bit = format_.bits == 4;
  Tensor codes = is_4_bit ? Tensor(DType::kU8, {count, divide_up(num_columns_, 2)})
                          : Tensor(DType::kI8, {count, num_columns_});
  const std::int64_t row_bytes = codes.dim(1);
  auto* const bytes = static_cast<std::uint8_t*>(codes.view().raw());
  const auto* const words = parts_.codes.as<std::uint32_t>() + first;
  const std::uint32_t flipped = is_4_bit ? 0 : 0x80808080u;  // code - 128
  std::int64_t num_in_order = 0;
  if (is_4_bit && column_order_ != nullptr && has_full_words()) {
    num_in_order = count / kRowsInOrder * kRowsInOrder;
    copy_in_order({.first = words, .stride = num_rows_}, *column_order_, num_in_order, bytes);
  }
  std::uint8_t* const to = bytes + num_in_order * row_bytes;
  copy_words(words + num_in_order, count - num_in_order, flipped, to, row_bytes);
  copy_last_word(words + num_in_order, count - num_in_order, flipped, to, row_bytes);
  for (std::int64_t n = num_in_order; n < count; ++n) {
    reorder_columns(column_order_, is_4_bit,
                    std::span(bytes + n * row_bytes, static_cast<std::size_t>(row_bytes)));
  }
  return codes;
}

QuantisedMatrix GptqTensor::read_codes(std::int64_t first, std::int64_t count) const {
  QuantisedMatrix matrix = describe();
  matrix.codes = read_rows(first, count);
  read_scales(first, matrix);
  return matrix;
}

// Words of 4-bit codes of 32 rows each are packed where they are, if they are full, and so are
// scales and 4-bit zeros in any case, those of v1 without a carry: 1 to 16.
QuantisedMatrix GptqTensor::borrow_codes(std::int64_t first, std::int64_t count) const {
  constexpr std::int64_t kRows = 32;
  const bool is_4_bit = format_.bits == 4;
  if (first % kRows != 0 || count % kRows != 0 || (has_offsets_ && !is_4_bit)) {
    return read_codes(first, count);
  }
  constexpr std::int64_t kWordBytes = 4;
  QuantisedMatrix matrix = describe();
  if (is_4_bit && has_full_words()) {
    matrix.file_codes = {.order = column_order_ == nullptr ? CodeOrder::kWordsOfColumns
                                                           : CodeOrder::kWordsOfMatrixColumns,
                         .num_rows = count,
                         .words = parts_.codes.as<std::uint8_t>() + first * kWordBytes,
                         .stride_bytes = num_rows_ * kWordBytes};
  } else {
    matrix.codes = read_rows(first, count);
  }
  matrix.file_scales = {.dtype = parts_.scales.tensor->dtype.value(),
                        .numbers = parts_.scales.as<std::uint16_t>() + first,
                        .row_stride = 1,
                        .group_stride = num_rows_};
  if (!has_offsets_) return matrix;
  matrix.file_scales.zeros = zero_words() + first / format_.codes_per_word();
  matrix.file_scales.zero_stride = parts_.zeros.dim(1);
  matrix.file_scales.middle =
      static_cast<std::int8_t>(format_.middle() - (format_.stores_zeros_less_one ? 1 : 0));
  return matrix;
}

}  // namespace

CodedTensors find_gptq(const Checkpoint& file, const JsonObject& config) {
  const GptqFormat format = read_gptq_format(config);
  KnownOrders orders;
  CodedTensors tensors;
  const std::vector<std::string> modules = modules_with(file, "qweight");
  const RequestedPages requested = request_parts(file, modules, {"qzeros", "g_idx"});
  for (const std::string& name : modules) {
    Module module(file, name);
    tensors.emplace(name + ".weight", std::make_unique<GptqTensor>(module, format, orders));
  }
  return tensors;
}

}  // namespace caption::weights
