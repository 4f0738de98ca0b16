// Any bytes as a cache file: a fault that is named, or a payload whose checksum holds and which
// makes the same file again. Input: the file.
#include <algorithm>
#include <string>
#include <vector>

#include "store/internal/blob.h"
#include "tests/fuzz/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace caption;
  const auto file = std::as_bytes(std::span(bytes, size));
  const store::BlobName name{.kind = "pages", .key = {1, 2}};
  const auto header = file.first(std::min(size, store::kBlobHeaderBytes));
  if (!store::describe_header_fault(header, name, size).empty()) return 0;
  fuzz::require(size >= store::kBlobHeaderBytes, "a faultless header is whole");
  const auto payload = file.subspan(store::kBlobHeaderBytes);
  if (!store::payload_matches(header, payload)) return 0;
  const auto again = store::make_blob_header(name, payload);
  fuzz::require(std::equal(again.begin(), again.end(), header.begin()),
                "a file that is accepted is the one that would be written");
  return 0;
}
