#include "weights/gguf_source.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/mend_advice.h"
#include "weights/ggml_type.h"
#include "weights/internal/gguf_names.h"
#include "weights/internal/safetensors.h"
#include "weights/not_finite.h"

namespace caption::weights {
namespace {

// The tensor as a matrix for decode_rows(): its last axis are the columns.
GgmlRows rows_of(const GgufTensor& tensor) {
  GgmlRows rows{.type = tensor.type->type,
                .bytes = tensor.bytes,
                .num_columns = tensor.extents[tensor.rank - 1],
                .first = 0,
                .count = 1};
  for (std::uint32_t axis = 0; axis + 1 < tensor.rank; ++axis) rows.count *= tensor.extents[axis];
  return rows;
}

std::optional<DType> stored_dtype(GgmlType type) {
  switch (type) {
    case GgmlType::kF32: return DType::kF32;
    case GgmlType::kF16: return DType::kF16;
    case GgmlType::kBF16: return DType::kBF16;
    default: return std::nullopt;
  }
}

// The dtype of a tensor that is a view of the file; nullopt for one that is decoded to f32.
std::optional<DType> view_dtype(const GgufEntry& entry) {
  if (entry.assembly != GgufAssembly::kOne) return std::nullopt;
  return stored_dtype(entry.pieces.front()->type->type);
}

// The shape of a checkpoint's tensor.
std::vector<std::int64_t> extents_of(const GgufEntry& entry) {
  const std::span<const std::int64_t> first = entry.pieces.front()->shape();
  std::vector<std::int64_t> extents;
  for (const std::int64_t extent : first) {
    extents.push_back(extent);
    const bool is_before_kernel = extents.size() == 2;
    if (is_before_kernel && entry.assembly == GgufAssembly::kFrames) {
      extents.push_back(std::ssize(entry.pieces));
    }
  }
  for (std::size_t i = 1; i < entry.pieces.size() && entry.assembly == GgufAssembly::kRows; ++i) {
    extents.front() += entry.pieces[i]->extents[0];
  }
  return extents;
}

// Whether the shapes are the same without axes of one element.
bool is_same_shape(const std::vector<std::int64_t>& extents, const Shape& shape) {
  std::size_t at = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 1) continue;
    while (at < extents.size() && extents[at] == 1) ++at;
    if (at == extents.size() || extents[at] != shape[axis]) return false;
    ++at;
  }
  while (at < extents.size() && extents[at] == 1) ++at;
  return at == extents.size();
}

// The row of the file that is row `row` of the checkpoint.
std::int64_t rotated_row(std::int64_t row, std::int64_t head_dim) {
  const std::int64_t in_head = row % head_dim;
  const std::int64_t half = in_head / (head_dim / 2);
  return row - in_head + 2 * (in_head % (head_dim / 2)) + half;
}

// The rows that rotated_row() permutes: those of a matrix, or the elements of a vector.
std::int64_t num_rows_of(const GgufTensor& tensor) {
  return tensor.rank == 1 ? tensor.extents[0] : rows_of(tensor).count;
}

void decode_rotated(const GgufTensor& tensor, std::int64_t num_heads, float* values) {
  GgmlRows rows = rows_of(tensor);
  const std::int64_t num_rows = num_rows_of(tensor);
  const std::int64_t head_dim = num_rows / num_heads;
  if (tensor.rank == 1) {
    std::vector<float> decoded(static_cast<std::size_t>(num_rows));
    decode_rows(rows, decoded.data());
    for (std::int64_t row = 0; row < num_rows; ++row) {
      values[row] = decoded[static_cast<std::size_t>(rotated_row(row, head_dim))];
    }
    return;
  }
  rows.count = 1;
  for (std::int64_t row = 0; row < num_rows; ++row) {
    rows.first = rotated_row(row, head_dim);
    decode_rows(rows, values + row * rows.num_columns);
  }
}

// [out, in, frames, height, width] of one [out, in, height, width] for each frame.
void decode_frames(const std::vector<const GgufTensor*>& pieces, float* values) {
  const GgmlRows rows = rows_of(*pieces.front());
  const std::int64_t count = rows.count * rows.num_columns;
  const GgufTensor& first = *pieces.front();
  const std::int64_t kernel = first.extents[2] * first.extents[3];
  std::vector<float> decoded(static_cast<std::size_t>(count));
  for (std::size_t frame = 0; frame < pieces.size(); ++frame) {
    decode_rows(rows_of(*pieces[frame]), decoded.data());
    for (std::int64_t i = 0; i < count / kernel; ++i) {
      const std::int64_t to = i * std::ssize(pieces) + static_cast<std::int64_t>(frame);
      std::copy_n(decoded.data() + i * kernel, kernel, values + to * kernel);
    }
  }
}

void decode_entry(const GgufEntry& entry, float* values) {
  switch (entry.assembly) {
    case GgufAssembly::kOne: return decode_rows(rows_of(*entry.pieces.front()), values);
    case GgufAssembly::kRotatedRows:
      return decode_rotated(*entry.pieces.front(), entry.num_heads, values);
    case GgufAssembly::kFrames: return decode_frames(entry.pieces, values);
    case GgufAssembly::kRows:
      for (const GgufTensor* const piece : entry.pieces) {
        const GgmlRows rows = rows_of(*piece);
        decode_rows(rows, values);
        values += rows.count * rows.num_columns;
      }
      return;
  }
}

// Throws unless the pieces of an entry can be put together.
void check_entry(const GgufFile& file, const std::string& name, const GgufEntry& entry) {
  const GgufTensor& first = *entry.pieces.front();
  const auto fail = [&](const GgufTensor& tensor, const std::string& what) {
    throw Error(ErrorCode::kBadModel, file.describe(tensor) + ": " + what + "; " + kConvertAgain);
  };
  if (entry.assembly == GgufAssembly::kRotatedRows) {
    const std::int64_t num_rows = num_rows_of(first);
    if (first.rank > 2 || num_rows % entry.num_heads != 0 || num_rows / entry.num_heads % 2 != 0) {
      fail(first, "has " + std::to_string(num_rows) + " rows, which are not those of " +
                      std::to_string(entry.num_heads) + " heads");
    }
  }
  if (entry.assembly == GgufAssembly::kFrames && first.rank != 4) {
    fail(first, "has " + std::to_string(first.rank) + " axes; 4 were expected");
  }
  for (const GgufTensor* const piece : entry.pieces) {
    const std::span<const std::int64_t> wanted = first.shape();
    const std::span<const std::int64_t> found = piece->shape();
    const std::size_t skipped = entry.assembly == GgufAssembly::kRows ? 1 : 0;
    if (found.size() == wanted.size() &&
        std::equal(found.begin() + skipped, found.end(), wanted.begin() + skipped)) {
      continue;
    }
    fail(*piece, "has shape " + extents_to_string(found) + ", which does not fit " +
                     extents_to_string(wanted) + " of the other parts of " + quote_name(name));
  }
}

// The newline of images belongs to no part of a composed model.
bool is_of_part(std::string_view name, GgufPart part) {
  if (part == GgufPart::kWhole) return true;
  const bool is_of_projector = name.starts_with("model.multi_modal_projector.");
  const bool is_newline = name == "model.image_newline";
  return !is_newline && is_of_projector == (part == GgufPart::kProjector);
}

}  // namespace

struct GgufSource::Entries {
  GgufEntries by_name;
  std::string text_prefix;
};

GgufSource::GgufSource(std::shared_ptr<const GgufFile> file, std::string_view text_prefix,
                       GgufPart part)
    : file_(std::move(file)) {
  entries_ = std::make_unique<Entries>(Entries{.by_name = name_gguf_tensors(*file_, text_prefix),
                                               .text_prefix = std::string(text_prefix)});
  std::erase_if(entries_->by_name,
                [&](const auto& entry) { return !is_of_part(entry.first, part); });
  for (const auto& [name, entry] : entries_->by_name) check_entry(*file_, name, entry);
}

GgufSource::~GgufSource() = default;

bool GgufSource::has(std::string_view tensor) const { return entries_->by_name.contains(tensor); }

std::vector<std::string> GgufSource::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_->by_name) names.push_back(name);
  return names;
}

std::optional<std::string> GgufSource::file_name_of(std::string_view tensor) const {
  return gguf_name_of(*file_, entries_->text_prefix, tensor);
}

std::optional<Shape> GgufSource::shape(std::string_view tensor) const {
  const auto found = entries_->by_name.find(tensor);
  if (found == entries_->by_name.end()) return std::nullopt;
  return Shape(extents_of(found->second));
}

namespace {

const GgufEntry& require(const GgufFile& file, const GgufEntries& entries,
                         std::string_view text_prefix, std::string_view tensor,
                         const Shape& shape) {
  const auto found = entries.find(tensor);
  if (found == entries.end()) {
    const std::string name = gguf_name_of(file, text_prefix, tensor).value_or(std::string(tensor));
    throw Error(ErrorCode::kBadModel, file.path().string() + ": tensor " + quote_name(name) + " " +
                                          shape.to_string() + " is missing; " + kConvertAgain);
  }
  const std::vector<std::int64_t> extents = extents_of(found->second);
  if (!is_same_shape(extents, shape)) {
    const bool is_whole = found->second.pieces.size() == 1;
    const std::string of_parts = is_whole ? "" : " with the other parts of it";
    throw Error(ErrorCode::kBadModel, file.describe(*found->second.pieces.front()) + " has" +
                                          of_parts + " the shape " + extents_to_string(extents) +
                                          "; expected " + shape.to_string() +
                                          " by the file's keys; " + kConvertAgain);
  }
  return found->second;
}

}  // namespace

ConstView GgufSource::read(std::string_view tensor, const Shape& shape) {
  const GgufEntry& entry = require(*file_, entries_->by_name, entries_->text_prefix, tensor, shape);
  for (const GgufTensor* const piece : entry.pieces) {
    if (piece->type->is_decoded) continue;
    throw Error(ErrorCode::kUnavailable,
                file_->describe(*piece) + " has the type " + std::string(piece->type->name) +
                    ", which this build does not read; Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, "
                    "Q6_K, IQ4_NL, F32, F16 and BF16 are; download the model in one of them");
  }
  if (const auto dtype = view_dtype(entry)) {
    return ConstView(entry.pieces.front()->bytes.data(), *dtype, shape);
  }
  const auto made = made_.find(tensor);
  if (made != made_.end()) return std::as_const(made->second).view().reshape(shape);
  Tensor decoded(DType::kF32, shape);
  decode_entry(entry, decoded.as<float>());
  const Tensor& kept = made_.emplace(tensor, std::move(decoded)).first->second;
  return kept.view();
}

std::optional<std::string> GgufSource::find_broken_tensor() const {
  for (const auto& [name, entry] : entries_->by_name) {
    for (const GgufTensor* const piece : entry.pieces) {
      const std::optional<DType> dtype = stored_dtype(piece->type->type);
      if (!dtype) continue;
      const GgmlRows rows = rows_of(*piece);
      const auto at =
          find_not_finite(ConstView(piece->bytes.data(), *dtype, {rows.count * rows.num_columns}));
      if (at) return describe_not_finite(file_->describe(*piece), *at);
    }
  }
  return std::nullopt;
}

bool GgufSource::has_decodable_rows(std::string_view tensor) const {
  const auto found = entries_->by_name.find(tensor);
  if (found == entries_->by_name.end()) return false;
  const GgufEntry& entry = found->second;
  return entry.assembly == GgufAssembly::kOne && entry.pieces.front()->rank == 2 &&
         code_layout_of(entry.pieces.front()->type->type).has_value();
}

void GgufSource::decode_rows(std::string_view tensor, std::int64_t first, std::int64_t count,
                             float* to) const {
  CAPTION_CHECK(has_decodable_rows(tensor), "decode_rows: " + std::string(tensor));
  GgmlRows rows = rows_of(*entries_->by_name.find(tensor)->second.pieces.front());
  CAPTION_CHECK(first >= 0 && count >= 0 && count <= rows.count - first,
                "decode_rows: rows outside " + std::string(tensor));
  rows.first = first;
  rows.count = count;
  weights::decode_rows(rows, to);
}

std::optional<DType> GgufSource::dtype_of(std::string_view tensor) const {
  const auto found = entries_->by_name.find(tensor);
  if (found == entries_->by_name.end()) return std::nullopt;
  return view_dtype(found->second).value_or(DType::kF32);
}

std::vector<std::span<const std::byte>> GgufSource::mapped_bytes(std::string_view tensor) const {
  const auto found = entries_->by_name.find(tensor);
  if (found == entries_->by_name.end()) return {};
  std::vector<std::span<const std::byte>> bytes;
  for (const GgufTensor* const piece : found->second.pieces) bytes.push_back(piece->bytes);
  return bytes;
}

void GgufSource::release(std::string_view tensor) {
  const auto found = entries_->by_name.find(tensor);
  if (found == entries_->by_name.end()) return;
  if (const auto made = made_.find(tensor); made != made_.end()) made_.erase(made);
  for (const GgufTensor* const piece : found->second.pieces) release_pages(piece->bytes);
}

std::optional<StoredCodes> GgufSource::codes_of(std::string_view tensor) const {
  const auto found = entries_->by_name.find(tensor);
  if (found == entries_->by_name.end()) return std::nullopt;
  const GgufEntry& entry = found->second;
  const bool is_matrix =
      entry.assembly == GgufAssembly::kOne || entry.assembly == GgufAssembly::kRotatedRows;
  const GgmlTypeTraits& type = *entry.pieces.front()->type;
  const std::optional<CodeLayout> layout = code_layout_of(type.type);
  if (!is_matrix || entry.pieces.front()->rank != 2 || !layout) return std::nullopt;
  return StoredCodes{.method = type.name,
                     .format = layout->is_8_bit ? MatrixFormat::kInt8 : MatrixFormat::kInt4,
                     .layout = *layout};
}

// Blocks are packed where they are.
QuantisedMatrix GgufSource::borrow_codes(std::string_view tensor, const Shape& shape,
                                         std::int64_t first, std::int64_t count) const {
  const GgufEntry& entry = require(*file_, entries_->by_name, entries_->text_prefix, tensor, shape);
  const GgufTensor& stored = *entry.pieces.front();
  const GgmlRows rows = rows_of(stored);
  constexpr std::int64_t kRows = 32;
  constexpr std::int64_t kColumns = 64;
  const std::optional<CodeBlocks> blocks = code_blocks_of(rows.type);
  if (!blocks || count % kRows != 0 || rows.num_columns % kColumns != 0) {
    return read_codes(tensor, shape, first, count);
  }
  CAPTION_CHECK(codes_of(tensor), "borrow_codes: " + std::string(tensor) + " has none");
  CAPTION_CHECK(first >= 0 && count <= rows.count - first,
                "borrow_codes: rows outside " + std::string(tensor));
  QuantisedMatrix matrix;
  matrix.num_columns = rows.num_columns;
  const CodeLayout layout = *code_layout_of(rows.type);
  matrix.group_columns = layout.group_columns;
  matrix.number_dtypes = layout.numbers;
  if (!layout.is_8_bit) matrix.codebook = *codebook_of(rows.type);
  matrix.file_codes = {.order = CodeOrder::kBlocks,
                       .blocks = *blocks,
                       .is_4_bit = !layout.is_8_bit,
                       .num_rows = count};
  const auto row_bytes = std::ssize(rows.bytes) / rows.count;
  const auto* const begin = reinterpret_cast<const std::uint8_t*>(rows.bytes.data());
  const bool is_rotated = entry.assembly == GgufAssembly::kRotatedRows;
  matrix.file_codes.rows.reserve(static_cast<std::size_t>(count));
  for (std::int64_t row = first; row < first + count; ++row) {
    const std::int64_t from = is_rotated ? rotated_row(row, rows.count / entry.num_heads) : row;
    matrix.file_codes.rows.push_back(begin + from * row_bytes);
  }
  return matrix;
}

QuantisedMatrix GgufSource::read_codes(std::string_view tensor, const Shape& shape,
                                       std::int64_t first, std::int64_t count) const {
  const GgufEntry& entry = require(*file_, entries_->by_name, entries_->text_prefix, tensor, shape);
  CAPTION_CHECK(codes_of(tensor), "read_codes: " + std::string(tensor) + " has none");
  GgmlRows rows = rows_of(*entry.pieces.front());
  const std::int64_t num_rows = rows.count;
  CAPTION_CHECK(first >= 0 && count >= 0 && count <= num_rows - first,
                "read_codes: rows outside " + std::string(tensor));
  try {
    rows.first = first;
    rows.count = count;
    if (entry.assembly == GgufAssembly::kOne) return codes_of_rows(rows);
    // The rows of the checkpoint, gathered as bytes: blocks never cross rows.
    const std::int64_t head_dim = num_rows / entry.num_heads;
    const auto row_bytes = rows.bytes.size() / static_cast<std::size_t>(num_rows);
    std::vector<std::byte> gathered(row_bytes * static_cast<std::size_t>(count));
    for (std::int64_t row = 0; row < count; ++row) {
      const auto from = static_cast<std::size_t>(rotated_row(first + row, head_dim));
      std::memcpy(gathered.data() + static_cast<std::size_t>(row) * row_bytes,
                  rows.bytes.data() + from * row_bytes, row_bytes);
    }
    rows.first = 0;
    rows.bytes = gathered;
    return codes_of_rows(rows);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kBadModel) throw;
    throw Error(ErrorCode::kBadModel, file_->describe(*entry.pieces.front()) + ": " + error.what());
  }
}

}  // namespace caption::weights
