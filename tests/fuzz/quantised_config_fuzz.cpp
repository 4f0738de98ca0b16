// Any bytes as the config.json and the weights of a quantised checkpoint: an Error, or tensors that
// can be read. Input: config.json, a NUL byte, model.safetensors.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/utf8.h"
#include "tests/fuzz/check.h"
#include "weights/internal/coded_source.h"
#include "weights/open_source.h"

namespace caption::weights {
namespace {

namespace fs = std::filesystem;

void read_weights(const fs::path& folder) {
  const std::unique_ptr<Source> source = open_source(folder);
  const auto* const coded = dynamic_cast<const CodedSource*>(source.get());
  if (coded == nullptr) return;
  for (const std::string& name : coded->names()) {
    const Shape shape = coded->shape(name).value();
    fuzz::require(source->read(name, shape).shape() == shape,
                  "numbers have the shape that is told");
    source->release(name);
    const std::optional<StoredCodes> codes = source->codes_of(name);
    if (!codes) continue;
    fuzz::require(codes->layout.group_columns > 0, "a group has columns");
    const QuantisedMatrix row = source->read_codes(name, shape, shape[0] - 1, 1);
    fuzz::require(row.num_columns == shape[1], "a row has all columns");
    for (std::int64_t k = 0; k < shape[1]; ++k) {
      fuzz::require(row.column_of(k) >= 0 && row.column_of(k) < shape[1], "columns are in range");
      row.value(0, k);
    }
  }
}

}  // namespace
}  // namespace caption::weights

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace caption;
  const std::string_view input = fuzz::as_text(bytes, size);
  const std::size_t end = std::min(input.find('\0'), input.size());
  const std::filesystem::path folder = std::filesystem::temp_directory_path() /
                                       ("caption-fuzz-quantised-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json", std::ios::binary) << input.substr(0, end);
  std::ofstream(folder / "model.safetensors", std::ios::binary)
      << input.substr(std::min(end + 1, input.size()));
  try {
    weights::read_weights(folder);
  } catch (const Error& error) {
    fuzz::require(error.code() == ErrorCode::kBadModel || error.code() == ErrorCode::kUnavailable,
                  "a bad checkpoint is kBadModel or kUnavailable");
    fuzz::require(is_valid_utf8(error.what()), "messages are valid UTF-8");
  }
  std::filesystem::remove_all(folder);
  return 0;
}
