#include "weights/internal/export_rows.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "tensor/dtype.h"
#include "weights/ggml_encode.h"
#include "weights/internal/safetensors.h"

namespace caption::weights {
namespace {

constexpr std::int64_t kPartValues = std::int64_t{1} << 18;  // 1 MiB of f32

// A tensor of a file as runs of numbers that follow one another in the checkpoint's tensor.
struct Runs {
  std::int64_t count = 1;
  std::int64_t length = 1;  // a row; a kernel of one frame
};

Runs runs_of(const ExportedTensor& tensor) {
  const std::vector<std::int64_t>& extents = tensor.header.extents;
  // Blocks never cross rows; the elements of a rotated vector are its rows.
  std::size_t num_outer = extents.size() - 1;
  if (tensor.part == GgufAssembly::kRotatedRows && extents.size() == 1) num_outer = 1;
  if (tensor.part == GgufAssembly::kFrames) num_outer = 2;
  Runs runs;
  for (std::size_t axis = 0; axis < extents.size(); ++axis) {
    (axis < num_outer ? runs.count : runs.length) *= extents[axis];
  }
  return runs;
}

// The run of the checkpoint that is run `index` of the file.
std::int64_t source_run(const ExportedTensor& tensor, const Runs& runs, std::int64_t index) {
  const auto piece = static_cast<std::int64_t>(tensor.piece);
  switch (tensor.part) {
    case GgufAssembly::kOne: return index;
    case GgufAssembly::kRows: return piece * runs.count + index;
    case GgufAssembly::kFrames: return index * static_cast<std::int64_t>(tensor.num_pieces) + piece;
    case GgufAssembly::kRotatedRows: {
      const std::int64_t head_dim = runs.count / tensor.num_heads;
      const std::int64_t in_head = index % head_dim;
      return index - in_head + in_head % 2 * (head_dim / 2) + in_head / 2;
    }
  }
  return index;
}

void encode(const ExportedTensor& tensor, const Source& source, std::span<const float> values,
            std::span<std::byte> bytes) {
  try {
    encode_rows(tensor.header.type, values, bytes);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kBadModel) throw;
    throw Error(ErrorCode::kBadModel,
                source.name() + ": tensor " + quote_name(tensor.source) + ": " + error.what());
  }
}

}  // namespace

void write_tensor(const ExportedTensor& tensor, Source& source,
                  const std::function<void(std::span<const std::byte>)>& write) {
  const bool is_made = tensor.source.empty();
  const Runs runs = runs_of(tensor);
  const ConstView view =
      is_made ? ConstView(tensor.values.data(), DType::kF32, {std::ssize(tensor.values)})
              : source.read(tensor.source, tensor.shape);
  const std::int64_t per_part = std::max<std::int64_t>(1, kPartValues / runs.length);
  std::vector<float> values;
  std::vector<std::byte> bytes;
  for (std::int64_t first = 0; first < runs.count; first += per_part) {
    const std::int64_t count = std::min(per_part, runs.count - first);
    values.resize(static_cast<std::size_t>(count * runs.length));
    dispatch_float(view.dtype(), [&](auto number) {
      const auto* const begin = view.as<decltype(number)>();
      for (std::int64_t i = 0; i < count; ++i) {
        const auto* const from = begin + source_run(tensor, runs, first + i) * runs.length;
        std::transform(from, from + runs.length, values.data() + i * runs.length,
                       [](auto x) { return to_float(x); });
      }
    });
    bytes.resize(encoded_bytes(tensor.header.type, std::ssize(values)));
    encode(tensor, source, values, bytes);
    write(bytes);
  }
  if (!is_made) source.release(tensor.source);
}

}  // namespace caption::weights
