#include "tests/support/drawn_gguf.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "base/sha256.h"

namespace caption::testing {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kAlignment = 32;

JsonObject description_of(const fs::path& golden) {
  return JsonObject::open(golden / "files.json", ErrorCode::kBadReference);
}

fs::path base_of(const fs::path& golden) {
  return golden / "../.." / description_of(golden).require_string("base");
}

// LlamaModel.permute() of llama.cpp's converter.
std::vector<float> permute(const std::vector<float>& values, std::int64_t heads,
                           std::int64_t num_rows) {
  const std::size_t columns = values.size() / static_cast<std::size_t>(num_rows);
  const std::int64_t head_dim = num_rows / heads;
  std::vector<float> permuted(values.size());
  for (std::int64_t row = 0; row < num_rows; ++row) {
    const std::int64_t in_head = row % head_dim;
    const std::int64_t to =
        row - in_head + 2 * (in_head % (head_dim / 2)) + in_head / (head_dim / 2);
    std::copy_n(values.begin() + row * static_cast<std::ptrdiff_t>(columns), columns,
                permuted.begin() + to * static_cast<std::ptrdiff_t>(columns));
  }
  return permuted;
}

// Frame `frame` of a kernel [out, in, frames, height, width].
std::vector<float> frame_of(const std::vector<float>& values, const Shape& shape,
                            std::int64_t frame) {
  const std::int64_t size = shape[3] * shape[4];
  std::vector<float> cut;
  for (std::int64_t i = 0; i < shape[0] * shape[1]; ++i) {
    const auto begin = values.begin() + (i * shape[2] + frame) * size;
    cut.insert(cut.end(), begin, begin + size);
  }
  return cut;
}

// gguf-py's Q8_0: blocks of an f16 scale, the largest magnitude over 127, and 32 codes.
void append_q8_0(const std::vector<float>& values, std::string& bytes) {
  constexpr std::size_t kBlock = 32;
  for (std::size_t first = 0; first < values.size(); first += kBlock) {
    float largest = 0;
    for (std::size_t i = 0; i < kBlock; ++i) {
      largest = std::max(largest, std::abs(values[first + i]));
    }
    const float scale = largest / 127;
    const float inverse = scale == 0 ? 0 : 1 / scale;
    append_values({scale}, "F16", bytes);
    for (std::size_t i = 0; i < kBlock; ++i) {
      bytes += static_cast<char>(std::lround(values[first + i] * inverse));
    }
  }
}

void append_piece(const JsonObject& piece, const DrawnTensors& drawn, std::string& bytes) {
  const std::string name = piece.require_string("from");
  const auto tensor = std::find_if(drawn.tensors.begin(), drawn.tensors.end(),
                                   [&](const DrawnTensor& known) { return known.name == name; });
  CAPTION_CHECK(tensor != drawn.tensors.end(), "files.json: no tensor " + name);
  std::vector<float> values = draw_values(*tensor, drawn.seed);
  if (piece.has("heads")) {
    values = permute(values, piece.require_int("heads", 1, 1024), tensor->shape[0]);
  }
  if (piece.has("frame"))
    values = frame_of(values, tensor->shape, piece.require_int("frame", 0, 9));
  if (piece.has("rows")) {
    const std::vector<std::int64_t> rows = piece.get_ints("rows");
    const auto columns = std::ssize(values) / tensor->shape[0];
    const auto begin = values.begin() + rows.at(0) * columns;
    values = std::vector<float>(begin, begin + rows.at(1) * columns);
  }
  const std::string type = piece.require_string("type");
  if (type == "Q8_0") {
    append_q8_0(values, bytes);
  } else {
    append_values(values, type, bytes);
  }
  bytes.resize((bytes.size() + kAlignment - 1) / kAlignment * kAlignment);
}

}  // namespace

DrawnGguf::DrawnGguf(const fs::path& golden_case)
    : checkpoint_(base_of(golden_case)), path_(checkpoint_.path().string() + "-gguf") {
  fs::remove_all(path_);
  fs::create_directories(path_);
  const JsonObject description = description_of(golden_case);
  const DrawnTensors drawn = read_drawn_tensors(base_of(golden_case));
  for (const char* const name : {"model.gguf", "mmproj-model.gguf"}) {
    const JsonObject file = description.get_object(name).value();
    std::string bytes = read_text_file(golden_case / (std::string(name) + ".header"));
    for (const JsonObject& piece : file.get_objects("pieces")) append_piece(piece, drawn, bytes);
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    Sha256Hasher hasher;
    hasher.update(std::as_bytes(std::span(bytes)));
    is_equal_ = is_equal_ && hasher.digest().hex() == file.require_string("sha256");
  }
  for (const std::string& beside : description.get_strings("beside")) {
    fs::copy_file(checkpoint() / beside, path_ / beside);
  }
  for (const std::string& removed : description.get_strings("removed")) {
    fs::remove(checkpoint() / removed);
  }
  for (const std::string& replaced : description.get_strings("replaced")) {
    fs::copy_file(golden_case / replaced, checkpoint() / fs::path(replaced).filename(),
                  fs::copy_options::overwrite_existing);
  }
}

DrawnGguf::~DrawnGguf() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace caption::testing
