// Any bytes as a kept clip: nothing, or a clip that makes the same bytes again. Input: the bytes.
#include <algorithm>
#include <span>

#include "pipeline/vision_cache.h"
#include "tests/fuzz/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace caption;
  const auto blob = std::as_bytes(std::span(bytes, size));
  const std::optional<pipeline::SeenClip> clip = pipeline::parse_seen_clip(blob);
  if (!clip.has_value()) return 0;
  const std::vector<std::byte> again = pipeline::to_bytes(*clip);
  fuzz::require(std::equal(again.begin(), again.end(), blob.begin(), blob.end()),
                "what is read is what would be written");
  return 0;
}
