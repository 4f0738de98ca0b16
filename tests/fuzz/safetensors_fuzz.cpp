// Any bytes as a .safetensors file, and as a shard index: an Error(kBadModel), or tensors that tile
// the file's data and can be read. Input: the file.
#include <span>
#include <string>

#include "base/error.h"
#include "base/utf8.h"
#include "tests/fuzz/check.h"
#include "weights/internal/safetensors.h"

namespace caption::weights {
namespace {

template <class Work>
void expect_error_or_nothing(Work work) {
  try {
    work();
  } catch (const Error& error) {
    fuzz::require(error.code() == ErrorCode::kBadModel, "a bad file is kBadModel");
    fuzz::require(is_valid_utf8(error.what()), "messages are valid UTF-8");
  }
}

void read_tensors(std::span<const std::byte> file) {
  std::size_t total_bytes = 0;
  unsigned sum = 0;
  for (const FileTensor& tensor : parse_safetensors(file, "model.safetensors")) {
    const std::size_t size_bytes = tensor.bytes.size();
    total_bytes += size_bytes;
    if (size_bytes == 0) continue;
    const auto offset = static_cast<std::size_t>(tensor.bytes.data() - file.data());
    fuzz::require(offset + size_bytes <= file.size(), "a tensor lies inside the file");
    if (tensor.dtype) {
      const std::size_t element_bytes = dtype_size_bytes(*tensor.dtype);
      fuzz::require(offset % element_bytes == 0, "a tensor is aligned");
      fuzz::require(size_bytes == element_bytes * static_cast<std::size_t>(tensor.num_elements),
                    "a tensor is as long as its shape says");
    }
    for (const std::byte byte : tensor.bytes) sum += std::to_integer<unsigned>(byte);
  }
  fuzz::require(total_bytes <= file.size(), "tensors do not overlap");
  static volatile unsigned sink = 0;  // the reads above are the test
  sink = sink + sum;
}

}  // namespace
}  // namespace caption::weights

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace caption;
  weights::expect_error_or_nothing(
      [&] { weights::read_tensors(std::as_bytes(std::span(bytes, size))); });
  weights::expect_error_or_nothing([&] {
    for (const auto& [name, shard] :
         weights::parse_shard_index(fuzz::as_text(bytes, size), "index.json")) {
      fuzz::require(shard.find('/') == std::string::npos && shard != "..",
                    "a shard's name stays in the folder");
    }
  });
  return 0;
}
