// Checkpoints of compressed-tensors, which llm-compressor writes.
//
// pack-quantized, b = 4 or 8 bits:
//   <module>.weight_packed      I32 [N, ceil(K * b / 32)]   32 / b neighbouring columns in a
//                               word, the first in the lowest bits, as q + 2^(b - 1)
//   <module>.weight_shape       I64 or I32 [2]: N, K
//   <module>.weight_zero_point  I32 [ceil(N * b / 32), G]   packed along the rows, as the codes
//   <module>.weight_g_idx       I32 [K]                     with act-order: the group of column k
// int-quantized:
//   <module>.weight             I8 [N, K]
//   <module>.weight_zero_point  I8 [N, G]
// both:
//   <module>.weight_scale       BF16, F16 or F32 [N, G]; with the strategy "tensor" one number
//   W[n, k] = scale[n, g] * (q[n, k] - zero[n, g]) with g = k / group_size, or g_idx[k]
// float-quantized: F8_E4M3 numbers (internal/fp8_tensor.h), scales as above or by blocks.
// Zero points are there if the scheme is not symmetric. The library multiplies in the dtype of the
// scales; the product here is the exact number that it rounds.
// Sources: compressed-tensors 0.12 and 0.20 (compressors/pack_quantized, naive_quantized;
// quantization/lifecycle/forward.py); act-order: 0.12, later versions do not read it.
//
// Inputs are not rounded to 8 bits unless the model is held as w8a8; the scales of inputs are not
// used.
//
// Exactness: the matrix is held as scale * q + scale * -zero. With scales of 11 significant bits
// (F16) or 8 (BF16) both products and the sum are integers of at most 2^20 times the scale's last
// place, which f32 holds. With scales of F32 each product is rounded, as the library's is, and with
// zero points the sum is rounded too.
#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "base/counted.h"
#include "base/math.h"
#include "weights/internal/code_rows.h"
#include "weights/internal/compressed_tensors_config.h"
#include "weights/internal/fp8_tensor.h"
#include "weights/quantise.h"

namespace caption::weights {
namespace {

constexpr float kLargestCode = 255;

// Integers that are packed into words along one axis, or bytes.
class PackedInts {
 public:
  // Bytes if `bits` is 0.
  PackedInts(Part part, std::int64_t bits) : part_(std::move(part)), bits_(bits) {}

  // The signed integer `i` of successive words that lie `stride` words apart, the first of which is
  // word `first`; bytes are not words: it is byte first + i * stride.
  std::int32_t at(std::int64_t first, std::int64_t stride, std::int64_t i) const {
    if (bits_ == 0) return part_.as<std::int8_t>()[first + i * stride];
    const std::int64_t per_word = 32 / bits_;
    const std::uint32_t word = part_.as<std::uint32_t>()[first + i / per_word * stride];
    const std::uint32_t field = word >> (i % per_word * bits_) & ((1u << bits_) - 1u);
    return static_cast<std::int32_t>(field) - (1 << (bits_ - 1));
  }
  std::int64_t row_stride() const { return part_.dim(1); }
  const std::uint8_t* row(std::int64_t n) const {
    return part_.as<std::uint8_t>() + n * row_stride() * (bits_ == 0 ? 1 : 4);
  }
  bool has_8_bits() const { return bits_ == 8; }  // as code + 128
  // Copies the beginning of row n: codes of 4 bits as they are stored, others as signed bytes.
  void copy_row(std::int64_t n, std::span<std::uint8_t> to) const {
    std::memcpy(to.data(), row(n), to.size());
    if (bits_ != 8) return;
    for (std::uint8_t& code : to) code ^= 0x80u;
  }

 private:
  Part part_;
  std::int64_t bits_;
};

// The parts of a module of which names, dtypes and shapes fit a scheme.
struct IntParts {
  Shape shape;
  PackedInts codes;
  ScaleGrid scales;
  std::optional<PackedInts> zeros = {};
  bool is_zero_packed = false;
  std::optional<Part> groups = {};
};

class IntTensor final : public CodedTensor {
 public:
  IntTensor(IntParts parts, const CompressionScheme& scheme, const Module& module,
            KnownOrders& orders)
      : CodedTensor(module.parts()),
        parts_(std::move(parts)),
        is_4_bit_(scheme.format == CompressedFormat::kPackedInts && scheme.num_bits == 4),
        rounds_activations_(scheme.rounds_activations),
        group_columns_(scheme.block.columns == 0 ? parts_.shape[1] : scheme.block.columns) {
    if (parts_.groups) {
      column_order_ =
          order_by_group(*parts_.groups, parts_.scales.num_across(), group_columns_, orders);
    }
    for (std::int64_t n = 0; n < parts_.shape[0] && !has_offsets_ && parts_.zeros; ++n) {
      for (std::int64_t g = 0; g < num_groups(); ++g) has_offsets_ |= zero_at(n, g) != 0;
    }
  }

  Shape shape() const override { return parts_.shape; }
  std::optional<StoredCodes> codes() const override;
  QuantisedMatrix read_codes(std::int64_t first, std::int64_t count) const override;
  QuantisedMatrix borrow_codes(std::int64_t first, std::int64_t count) const override;
  Tensor decode() const override;

 private:
  std::int64_t num_groups() const { return divide_up(parts_.shape[1], group_columns_); }
  std::int32_t zero_at(std::int64_t n, std::int64_t g) const;
  std::int32_t code_at(std::int64_t n, std::int64_t k) const {
    return parts_.codes.at(n * parts_.codes.row_stride(), 1, k);
  }
  // Returns what all rows have in common, and no rows.
  QuantisedMatrix describe() const;
  QuantisedMatrix read_scales(std::int64_t first, std::int64_t count) const;

  IntParts parts_;
  bool is_4_bit_;
  bool rounds_activations_;
  std::int64_t group_columns_;
  bool has_offsets_ = false;  // whether a zero point is not 0
  ColumnOrder column_order_;
};

std::int32_t IntTensor::zero_at(std::int64_t n, std::int64_t g) const {
  if (!parts_.zeros) return 0;
  const PackedInts& zeros = *parts_.zeros;
  return parts_.is_zero_packed ? zeros.at(g, zeros.row_stride(), n)
                               : zeros.at(n * zeros.row_stride(), 1, g);
}

std::optional<StoredCodes> IntTensor::codes() const {
  const bool has_row_scales = num_groups() == 1 && !has_offsets_ && column_order_ == nullptr;
  const MatrixFormat of_8_bits = has_row_scales ? MatrixFormat::kInt8Row : MatrixFormat::kInt8;
  return StoredCodes{.method = "compressed-tensors",
                     .format = is_4_bit_ ? MatrixFormat::kInt4 : of_8_bits,
                     .layout = {.is_8_bit = !is_4_bit_,
                                .group_columns = group_columns_,
                                .has_offsets = has_offsets_,
                                .has_column_order = column_order_ != nullptr,
                                .numbers = {.scales = parts_.scales.dtype()}},
                     .rounds_activations = rounds_activations_};
}

QuantisedMatrix IntTensor::describe() const {
  QuantisedMatrix matrix;
  matrix.num_columns = parts_.shape[1];
  matrix.group_columns = group_columns_;
  matrix.column_order = column_order_;
  matrix.number_dtypes = {.scales = parts_.scales.dtype()};
  if (is_4_bit_) matrix.codebook = integer_codebook();
  return matrix;
}

// Returns the rows without their codes.
QuantisedMatrix IntTensor::read_scales(std::int64_t first, std::int64_t rows) const {
  QuantisedMatrix matrix = describe();
  const std::int64_t groups = matrix.num_groups();
  matrix.scales = Tensor(DType::kF32, {rows, groups});
  if (has_offsets_) matrix.offsets = Tensor(DType::kF32, {rows, groups});
  parts_.scales.read_rows(first, rows, matrix.scales.as<float>());
  for (std::int64_t n = 0; n < rows && has_offsets_; ++n) {
    for (std::int64_t g = 0; g < groups; ++g) {
      const float scale = matrix.scales.as<float>()[n * groups + g];
      matrix.offsets.as<float>()[n * groups + g] =
          scale * static_cast<float>(-zero_at(first + n, g));
    }
  }
  return matrix;
}

// Rows in order are packed where they are.
QuantisedMatrix IntTensor::borrow_codes(std::int64_t first, std::int64_t count) const {
  const bool is_in_order = column_order_ == nullptr && !parts_.codes.has_8_bits() &&
                           !(is_4_bit_ && parts_.shape[1] % 2 != 0);
  if (!is_in_order) return read_codes(first, count);
  const FileScales in_file = parts_.scales.in_file(first);
  const bool has_scales_in_file =
      !in_file.empty() && !has_offsets_ && parts_.scales.num_across() == num_groups();
  QuantisedMatrix matrix = has_scales_in_file ? describe() : read_scales(first, count);
  if (has_scales_in_file) matrix.file_scales = in_file;
  matrix.file_codes = {.is_4_bit = is_4_bit_, .num_rows = count};
  matrix.file_codes.rows.reserve(static_cast<std::size_t>(count));
  for (std::int64_t n = 0; n < count; ++n) {
    matrix.file_codes.rows.push_back(parts_.codes.row(first + n));
  }
  return matrix;
}

QuantisedMatrix IntTensor::read_codes(std::int64_t first, std::int64_t count) const {
  const std::int64_t columns = parts_.shape[1];
  QuantisedMatrix matrix = read_scales(first, count);
  matrix.codes = is_4_bit_ ? Tensor(DType::kU8, {count, divide_up(columns, 2)})
                           : Tensor(DType::kI8, {count, columns});
  const std::int64_t row_bytes = matrix.codes.dim(1);
  auto* const bytes = static_cast<std::uint8_t*>(matrix.codes.view().raw());
  for (std::int64_t n = 0; n < count; ++n) {
    const std::span<std::uint8_t> row(bytes + n * row_bytes, static_cast<std::size_t>(row_bytes));
    parts_.codes.copy_row(first + n, row);
    if (is_4_bit_ && columns % 2 != 0) row.back() &= 15u;
    reorder_columns(column_order_, is_4_bit_, row);
  }
  return matrix;
}

Tensor IntTensor::decode() const {
  const std::int64_t columns = parts_.shape[1];
  Tensor numbers(DType::kF32, shape());
  const auto* const groups = parts_.groups ? parts_.groups->as<std::int32_t>() : nullptr;
  for (std::int64_t n = 0; n < parts_.shape[0]; ++n) {
    for (std::int64_t k = 0; k < columns; ++k) {
      const std::int64_t g = groups == nullptr ? k / group_columns_ : groups[k];
      const std::int32_t difference = code_at(n, k) - zero_at(n, g);
      numbers.as<float>()[n * columns + k] =
          static_cast<float>(difference) * parts_.scales.at(n, g);
    }
  }
  return numbers;
}

// Returns N and K of a packed weight.
Shape read_shape(Module& module) {
  const Part part = module.require("weight_shape", {"I64", "I32"}, 1);
  if (part.dim(0) != 2)
    fail_part(part, "has " + counted(part.dim(0), "number") + "; two were expected");
  std::int64_t extents[2];
  for (int i = 0; i < 2; ++i) {
    extents[i] =
        part.tensor->dtype_name == "I64" ? part.as<std::int64_t>()[i] : part.as<std::int32_t>()[i];
    constexpr std::int64_t kMaxExtent = std::int64_t{1} << 31;
    if (extents[i] < 1 || extents[i] >= kMaxExtent) {
      fail_part(part, "holds " + std::to_string(extents[i]) + "; rows or columns were expected");
    }
  }
  return {extents[0], extents[1]};
}

// Returns the zero points of rows [N] and `groups` groups, if there are any.
std::optional<Part> find_zeros(Module& module, const CompressionScheme& scheme, const Shape& shape,
                               std::int64_t groups) {
  const bool is_packed = scheme.format == CompressedFormat::kPackedInts;
  std::optional<Part> zeros;
  if (is_packed) zeros = module.find("weight_zero_point", {"I32", "I8"}, 2);
  if (!is_packed) zeros = module.find("weight_zero_point", {"I8"}, 2);
  if (!zeros && !scheme.is_symmetric) module.require("weight_zero_point", {"I8"}, 2);
  if (!zeros) return std::nullopt;
  const std::int64_t rows =
      zeros->tensor->dtype_name == "I32" ? divide_up(shape[0] * scheme.num_bits, 32) : shape[0];
  return module.require_shape("weight_zero_point", {zeros->tensor->dtype_name}, {rows, groups});
}

IntParts read_int_parts(Module& module, const CompressionScheme& scheme) {
  const bool is_packed = scheme.format == CompressedFormat::kPackedInts;
  Shape shape;
  std::optional<Part> codes;
  if (is_packed) {
    shape = read_shape(module);
    codes = module.require_shape("weight_packed", {"I32"},
                                 {shape[0], divide_up(shape[1] * scheme.num_bits, 32)});
  } else {
    codes = module.require("weight", {"I8"}, 2);
    if (codes->tensor->num_elements == 0) fail_part(*codes, "is empty");
    shape = {codes->dim(0), codes->dim(1)};
  }
  ScaleBlock block = scheme.block;
  if (block.rows == 0) block.rows = shape[0];
  if (block.columns == 0) block.columns = shape[1];
  if (shape[1] % block.columns != 0) {
    fail_part(*codes, "has " + std::to_string(shape[1]) + " columns, which groups of " +
                          std::to_string(block.columns) + " do not divide");
  }
  const Part scales = module.require_any_rank("weight_scale", {"BF16", "F16", "F32"});
  IntParts parts{.shape = shape,
                 .codes = PackedInts(*codes, is_packed ? scheme.num_bits : 0),
                 .scales = ScaleGrid(scales, shape, block, kLargestCode, ScaleSign::kAny)};
  const std::int64_t groups = parts.scales.num_across();
  if (const auto zeros = find_zeros(module, scheme, shape, groups)) {
    parts.is_zero_packed = zeros->tensor->dtype_name == "I32";
    parts.zeros = PackedInts(*zeros, parts.is_zero_packed ? scheme.num_bits : 0);
  }
  if (!scheme.has_order) return parts;
  parts.groups = module.require_shape("weight_g_idx", {"I32"}, {shape[1]});
  // The library takes a file with -1 as one without act-order.
  const auto* const group_of = parts.groups->as<std::int32_t>();
  if (std::count(group_of, group_of + shape[1], -1) > 0) parts.groups.reset();
  return parts;
}

// What the modules of one file share.
struct Reading {
  const Checkpoint& file;
  const std::vector<CompressionScheme>& schemes;
  KnownOrders orders;
};

// Whether a module holds weights in the format of a scheme.
bool has_format(const Checkpoint& file, const std::string& module, CompressedFormat format) {
  if (file.stored(module + ".weight_packed") != nullptr) {
    return format == CompressedFormat::kPackedInts;
  }
  const FileTensor* const weight = file.stored(module + ".weight");
  if (weight == nullptr || format == CompressedFormat::kPackedInts) return false;
  return weight->dtype_name.starts_with("F8") == (format == CompressedFormat::kFloats);
}

std::unique_ptr<CodedTensor> read_with(const CompressionScheme& scheme, const std::string& name,
                                       Reading& reading) {
  Module module(reading.file, name);
  if (scheme.format == CompressedFormat::kFloats) {
    const Part scales = module.require_any_rank("weight_scale", {"BF16", "F16", "F32"});
    return make_fp8_tensor(module, scales, scheme.block);
  }
  IntParts parts = read_int_parts(module, scheme);
  module.add_parts({"input_scale", "input_zero_point"});
  return std::make_unique<IntTensor>(std::move(parts), scheme, module, reading.orders);
}

// Whether two blocks cut a matrix at the same rows and columns.
bool cut_alike(ScaleBlock a, ScaleBlock b, const Shape& matrix) {
  const auto whole = [&](ScaleBlock block) {
    if (block.rows == 0 || block.rows > matrix[0]) block.rows = matrix[0];
    if (block.columns == 0 || block.columns > matrix[1]) block.columns = matrix[1];
    return block;
  };
  return whole(a).rows == whole(b).rows && whole(a).columns == whole(b).columns;
}

// The schemes of a module's format, those first that have act-order as the module's tensors do: one
// without it would not miss weight_g_idx.
std::vector<const CompressionScheme*> candidates(const std::string& name, const Reading& reading) {
  std::vector<const CompressionScheme*> found;
  for (const CompressionScheme& scheme : reading.schemes) {
    if (has_format(reading.file, name, scheme.format)) found.push_back(&scheme);
  }
  const bool is_ordered = reading.file.has(name + ".weight_g_idx");
  std::stable_partition(found.begin(), found.end(), [&](const CompressionScheme* scheme) {
    return scheme->has_order == is_ordered;
  });
  return found;
}

// Returns the weight of a module by the first scheme that its tensors fit. Throws the error of the
// first scheme of its format when they fit none, and Error(kUnavailable) when they fit two whose
// scales are those of different blocks: `targets`, which is not read, would tell which of them it
// is. Codes cannot: their columns are a multiple of a group's.
std::unique_ptr<CodedTensor> read_module(const std::string& name, Reading& reading) {
  std::optional<Error> first;
  std::unique_ptr<CodedTensor> weight;
  const CompressionScheme* fitting = nullptr;
  for (const CompressionScheme* scheme : candidates(name, reading)) {
    std::unique_ptr<CodedTensor> read;
    try {
      read = read_with(*scheme, name, reading);
    } catch (const Error& error) {
      if (!first) first = error;
      continue;
    }
    if (weight == nullptr) {
      weight = std::move(read);
      fitting = scheme;
    }
    if (scheme->format != CompressedFormat::kFloats) break;
    if (cut_alike(fitting->block, scheme->block, weight->shape())) continue;
    throw Error(ErrorCode::kUnavailable,
                reading.file.where(name + ".weight_scale") +
                    " fits two of config_groups, with different blocks, and this build does not "
                    "read which of them targets the module; leave one of them");
  }
  if (weight != nullptr) return weight;
  if (first) throw Error(*first);
  throw Error(ErrorCode::kBadModel, reading.file.name() + ": module " + quote_name(name) +
                                        " has a compressed weight, but none of config_groups "
                                        "describes one of its format; config.json is another "
                                        "checkpoint's: download the folder again");
}

}  // namespace

CodedTensors find_compressed_tensors(const Checkpoint& file, const JsonObject& config) {
  const std::vector<CompressionScheme> schemes = read_compression_schemes(config);
  Reading reading{.file = file, .schemes = schemes, .orders = {}};
  CodedTensors tensors;
  for (const char* const suffix : {"weight_packed", "weight_scale"}) {
    const std::vector<std::string> modules = modules_with(file, suffix);
    const RequestedPages requested =
        request_parts(file, modules, {"weight_shape", "weight_zero_point", "weight_g_idx"});
    for (const std::string& name : modules) {
      if (tensors.contains(name + ".weight")) continue;
      tensors.emplace(name + ".weight", read_module(name, reading));
    }
  }
  for (const char* const dtype : {"I8", "F8_E4M3"}) {
    refuse_bare_codes(file, tensors, dtype, {"weight_scale"});
  }
  return tensors;
}

}  // namespace caption::weights
