// Any bytes as a GGUF file: an Error(kBadModel) or Error(kUnavailable), or values that can be read
// and tensors inside the file whose rows can be decoded. Input: the file.
#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "tests/fuzz/check.h"
#include "weights/internal/gguf_parser.h"

namespace caption::weights {
namespace {

// Calls a getter, which may refuse the value.
template <class Get>
void expect_error_or_value(Get get) {
  try {
    get();
  } catch (const Error& error) {
    fuzz::require(error.code() == ErrorCode::kBadModel || error.code() == ErrorCode::kUnavailable,
                  "a bad file is kBadModel or kUnavailable");
    fuzz::require(is_valid_utf8(error.what()), "messages are valid UTF-8");
  }
}

void read_values(const GgufMetadata& metadata) {
  for (const GgufValue& value : metadata.values()) {
    fuzz::require(metadata.find(value.key) != nullptr, "a key is found");
    expect_error_or_value([&] { metadata.require_int(value.key, INT64_MIN, INT64_MAX); });
    expect_error_or_value([&] { metadata.require_double(value.key); });
    expect_error_or_value([&] { metadata.require_string(value.key); });
    expect_error_or_value([&] { metadata.get_bool(value.key, false); });
    expect_error_or_value([&] { metadata.get_ints(value.key); });
    expect_error_or_value([&] { metadata.get_doubles(value.key); });
    expect_error_or_value([&] { metadata.get_bools(value.key); });
    expect_error_or_value([&] {
      std::size_t total = 0;
      for (const std::string_view text : metadata.get_strings(value.key)) total += text.size();
      fuzz::require(total <= value.bytes.size(), "strings lie inside their array");
    });
  }
}

void read_tensor(const GgufTensor& tensor, std::span<const std::byte> file) {
  const auto offset = static_cast<std::size_t>(tensor.bytes.data() - file.data());
  fuzz::require(offset + tensor.bytes.size() <= file.size(), "a tensor lies inside the file");
  if (!tensor.type->is_decoded) return;
  const GgmlRows rows = {.type = tensor.type->type,
                         .bytes = tensor.bytes,
                         .num_columns = tensor.extents[tensor.rank - 1],
                         .first = 0,
                         .count = 1};
  std::vector<float> values(static_cast<std::size_t>(rows.num_columns));
  decode_rows(rows, values.data());
  if (!code_layout_of(rows.type)) return;
  expect_error_or_value([&] {
    const QuantisedMatrix matrix = codes_of_rows(rows);
    for (std::size_t k = 0; k < values.size(); ++k) {
      fuzz::require(matrix.value(0, static_cast<std::int64_t>(k)) == values[k],
                    "codes give the values");
    }
  });
}

}  // namespace
}  // namespace caption::weights

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace caption;
  const std::span<const std::byte> file = std::as_bytes(std::span(bytes, size));
  weights::expect_error_or_value([&] {
    const weights::GgufHeader header = weights::parse_gguf(file, "model.gguf");
    weights::read_values(header.metadata);
    std::size_t total_bytes = 0;
    for (const weights::GgufTensor& tensor : header.tensors) {
      weights::read_tensor(tensor, file);
      total_bytes += tensor.bytes.size();
    }
    fuzz::require(total_bytes <= file.size(), "tensors do not overlap");
  });
  return 0;
}
