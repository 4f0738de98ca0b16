// Placing codes on a GPU: the rows come from the host in pieces, which the device packs.
//
// Traffic  a matrix's codes to the device, and once in and out there. Measured on no GPU.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/math.h"
#include "kernels/cuda/code_form.h"
#include "kernels/cuda/upload.h"
#include "tensor/copy.h"

namespace caption::kernels {
namespace cuda {
namespace {

// Codes of a piece that is on the device beside the tiles that are made of them.
constexpr std::int64_t kPieceBytes = std::int64_t{4} << 20;
constexpr std::int64_t kRowsAtOnce = 128;  // as place_quantised() may ask for
constexpr std::int64_t kCutGroup = 128;

bool has_integer_codebook(const QuantisedMatrix& matrix) {
  for (std::size_t i = 0; i < matrix.codebook.size(); ++i) {
    if (matrix.codebook[i] != static_cast<float>(i) - 8.0F) return false;
  }
  return true;
}

CodeKind kind_of(MatrixFormat format, const QuantisedMatrix& matrix) {
  if (format == MatrixFormat::kInt8Row) {
    CAPTION_CHECK(!matrix.is_4_bit() && matrix.num_groups() == 1 && matrix.offsets.empty(),
                  "place_quantised: rows of 8 bits have one scale and no offset");
    return CodeKind::kInt8A8;
  }
  CAPTION_CHECK(matrix.has_e4m3_codes == (format == MatrixFormat::kE4M3Row),
                "place_quantised: e4m3_row, and no other format, has codes of e4m3");
  if (format == MatrixFormat::kE4M3Row) {
    CAPTION_CHECK(matrix.num_groups() == 1 && matrix.offsets.empty(),
                  "place_quantised: rows of e4m3 have one scale and no offset");
    return CodeKind::kE4M3;
  }
  if (format == MatrixFormat::kInt4A8) {
    CAPTION_CHECK(
        matrix.is_4_bit() && !matrix.steps.empty() && matrix.group_columns <= kCutGroup,
        "place_quantised: int4_a8 has codes of 4 bits with steps, in groups of at most 128");
    return CodeKind::kInt4A8;
  }
  CAPTION_CHECK(matrix.steps.empty(), "place_quantised: only int4_a8 has steps");
  if (!matrix.is_4_bit()) return CodeKind::kInt8;
  return has_integer_codebook(matrix) ? CodeKind::kInt4 : CodeKind::kTable4;
}

// Where the arrays of a piece of rows lie, one after another.
class PieceLayout {
 public:
  PieceLayout(const QuantisedMatrix& sample, std::int64_t rows) {
    const Tensor* const arrays[] = {&sample.codes, &sample.scales, &sample.offsets, &sample.steps,
                                    &sample.bases};
    for (std::size_t i = 0; i < kArrays; ++i) {
      const auto bytes = static_cast<std::int64_t>(arrays[i]->size_bytes());
      row_bytes_[i] = bytes / sample.num_rows();
      begin_[i] = size_bytes_;
      size_bytes_ += divide_up(row_bytes_[i] * rows, 16) * 16;
    }
  }
  std::int64_t size_bytes() const { return size_bytes_; }

  // Copies rows to their place from row `first` of the piece on.
  void write(const QuantisedMatrix& rows, std::int64_t first, std::byte* piece) const {
    const Tensor* const arrays[] = {&rows.codes, &rows.scales, &rows.offsets, &rows.steps,
                                    &rows.bases};
    for (std::size_t i = 0; i < kArrays; ++i) {
      if (arrays[i]->empty()) continue;
      std::memcpy(piece + begin_[i] + first * row_bytes_[i], arrays[i]->view().raw(),
                  arrays[i]->size_bytes());
    }
  }

  StoredCodeRows rows(const std::byte* piece, std::int64_t first, std::int64_t count,
                      std::int64_t group_columns) const {
    const auto array = [&](std::size_t i) {
      return row_bytes_[i] == 0 ? nullptr : piece + begin_[i];
    };
    return {.codes = reinterpret_cast<const std::uint8_t*>(array(0)),
            .scales = reinterpret_cast<const float*>(array(1)),
            .offsets = reinterpret_cast<const float*>(array(2)),
            .steps = reinterpret_cast<const std::uint8_t*>(array(3)),
            .bases = reinterpret_cast<const std::uint8_t*>(array(4)),
            .first = static_cast<int>(first),
            .count = static_cast<int>(count),
            .row_bytes = static_cast<int>(row_bytes_[0]),
            .group_columns = static_cast<int>(group_columns)};
  }

 private:
  static constexpr std::size_t kArrays = 5;
  std::int64_t row_bytes_[kArrays] = {};
  std::int64_t begin_[kArrays] = {};
  std::int64_t size_bytes_ = 0;
};

// Uploads the rows piece by piece, and packs them.
void upload_rows(Stream& stream, const QuantisedMatrix& sample, const QuantisedRows& rows,
                 const PackedCodes& to) {
  const std::int64_t num_rows = to.shape.num_features;
  const auto row_bytes = static_cast<std::int64_t>(sample.codes.size_bytes()) / sample.num_rows();
  const std::int64_t piece_rows = std::min(
      num_rows, std::max(kPieceBytes / row_bytes / kRowsAtOnce, std::int64_t{1}) * kRowsAtOnce);
  const PieceLayout layout(sample, piece_rows);
  const auto piece_bytes = static_cast<std::size_t>(layout.size_bytes());
  WeightUpload upload(stream, piece_bytes);
  for (std::int64_t first = 0; first < num_rows; first += piece_rows) {
    const std::int64_t count = std::min(piece_rows, num_rows - first);
    const std::int64_t blocks = divide_up(count, kRowsAtOnce);
    std::byte* const piece = upload->take(piece_bytes);
    stream.pool().parallel_for(blocks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin * kRowsAtOnce; row < end * kRowsAtOnce; row += kRowsAtOnce) {
        if (row >= count) break;
        layout.write(rows(first + row, std::min(kRowsAtOnce, count - row)), row, piece);
      }
    });
    pack_code_rows(stream,
                   layout.rows(upload->copy(), first, count,
                               std::min(sample.group_columns, sample.num_columns)),
                   to);
  }
  upload.finish();
}

std::int64_t bytes_of(const CodeShape& shape) {
  return shape.tiles_bytes() + shape.numbers_bytes() + shape.rows_bytes();
}

}  // namespace

bool CodesForm::is_like(const WeightForm& other) const {
  if (static_cast<const DeviceForm&>(other).layout() != Layout::kCodes) return false;
  const auto& form = static_cast<const CodesForm&>(other);
  if (codes_.shape.kind != form.codes_.shape.kind || codes_.dtype != form.codes_.dtype ||
      codes_.shape.has_offsets != form.codes_.shape.has_offsets ||
      codes_.shape.group_columns != form.codes_.shape.group_columns ||
      !std::equal(codes_.codebook, codes_.codebook + 16, form.codes_.codebook)) {
    return false;
  }
  if (shared_order_ == form.shared_order_) return true;
  return shared_order_ != nullptr && form.shared_order_ != nullptr &&
         *shared_order_ == *form.shared_order_;
}

std::string CodesForm::describe() const {
  const CodeKind kind = codes_.shape.kind;
  std::string text = kind == CodeKind::kE4M3 ? "tiles of e4m3"
                     : has_4_bits(kind)      ? "tiles of 4 bits"
                                             : "tiles of 8 bits";
  if (has_8_bit_inputs(kind)) text += " for activations of 8 bits";
  if (!has_whole_rows(kind)) {
    text += " in groups of " + std::to_string(codes_.shape.group_columns) + " columns";
  }
  if (codes_.shape.has_offsets) text += " with offsets";
  if (shared_order_ != nullptr) text += ", in another order";
  return text;
}

std::int64_t placed_code_bytes(std::int64_t num_features, std::int64_t num_columns,
                               MatrixFormat format) {
  const auto bytes = [&](CodeKind kind, std::int64_t group_columns, bool has_offsets) {
    return bytes_of(make_code_shape(kind, num_features, num_columns, group_columns, has_offsets));
  };
  switch (format) {
    case MatrixFormat::kInt8: return bytes(CodeKind::kInt8, 128, false);
    case MatrixFormat::kInt8Row: return bytes(CodeKind::kInt8A8, num_columns, false);
    case MatrixFormat::kE4M3Row: return bytes(CodeKind::kE4M3, num_columns, false);
    case MatrixFormat::kInt4: return bytes(CodeKind::kInt4, 128, true);
    case MatrixFormat::kInt4A8: return bytes(CodeKind::kInt4A8, 128, false);
    case MatrixFormat::kNf4: return bytes(CodeKind::kTable4, 64, false);
    default: break;
  }
  CAPTION_CHECK(false, "placed_code_bytes: a format that place_quantised() does not take");
}

namespace {

Weight place_codes(Stream& stream, MatrixFormat format, std::int64_t num_features,
                   const QuantisedRows& rows) {
  const QuantisedMatrix sample = rows(0, std::min(kRowsAtOnce, num_features));
  PackedCodes codes{.shape =
                        make_code_shape(kind_of(format, sample), num_features, sample.num_columns,
                                        sample.group_columns, !sample.offsets.empty())};
  if (codes.shape.kind == CodeKind::kE4M3 &&
      !has_e4m3_products(stream.context().compute_capability)) {
    throw Error(ErrorCode::kUnavailable,
                "this GPU, or the CUDA toolkit that this program was built with (8.9 needs 12.4 or "
                "later), has no products of e4m3; use --dtype w8a8");
  }
  codes.dtype = dtype_of_products(stream.context());
  std::copy(sample.codebook.begin(), sample.codebook.end(), codes.codebook);
  const CodeShape& shape = codes.shape;
  Tensor memory(DType::kU8, {bytes_of(shape)}, stream.device());
  auto* const begin = static_cast<std::byte*>(memory.view().raw());
  codes.tiles = begin;
  codes.numbers = begin + shape.tiles_bytes();
  codes.rows = reinterpret_cast<const float*>(begin + shape.tiles_bytes() + shape.numbers_bytes());
  upload_rows(stream, sample, rows, codes);
  Tensor order;
  if (sample.column_order != nullptr) {
    CAPTION_CHECK(
        !has_8_bit_inputs(shape.kind) && std::ssize(*sample.column_order) == shape.num_columns,
        "place_quantised: a column order of another length, or of inputs of 8 bits");
    const ConstView host(sample.column_order->data(), DType::kI32, {shape.num_columns});
    order = Tensor(DType::kI32, host.shape(), stream.device());
    const std::size_t bytes = order.size_bytes();
    WeightUpload upload(stream, bytes);
    std::memcpy(upload->take(bytes), host.raw(), bytes);
    upload->copy_to(static_cast<std::byte*>(order.view().raw()));
    upload.finish();
    codes.column_order = static_cast<const std::int32_t*>(std::as_const(order).view().raw());
  }
  return Weight(num_features, sample.num_columns, stream.device(),
                std::make_unique<const CodesForm>(codes, std::move(memory), std::move(order),
                                                  sample.column_order));
}

}  // namespace
}  // namespace cuda

namespace impl {

Weight place_quantised(Cuda, Stream& stream, MatrixFormat format, std::int64_t num_features,
                       const QuantisedRows& rows) {
  return cuda::place_codes(stream, format, num_features, rows);
}

std::int64_t placed_bytes(Cuda, const Context& /*context*/, std::int64_t num_features,
                          std::int64_t num_columns, const CodeLayout& codes) {
  const cuda::CodeKind kind = codes.is_8_bit ? cuda::CodeKind::kInt8 : cuda::CodeKind::kInt4;
  const cuda::CodeShape shape = cuda::make_code_shape(kind, num_features, num_columns,
                                                      codes.group_columns, codes.has_offsets);
  return cuda::bytes_of(shape) + (codes.has_column_order ? 4 * num_columns : 0);
}

}  // namespace impl
}  // namespace caption::kernels
