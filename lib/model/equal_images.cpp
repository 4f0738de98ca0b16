#include "model/internal/equal_images.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <unordered_map>

#include "base/hash.h"

namespace caption::model {

std::vector<std::int64_t> find_equal_images(ConstView pixels, std::int64_t frames_per_image) {
  const std::int64_t num_frames = pixels.dim(0);
  const std::int64_t frame_values = num_frames > 0 ? pixels.num_elements() / num_frames : 0;
  const auto bytes_of = [&](std::int64_t image) {
    const std::int64_t first = image * frames_per_image;
    const std::int64_t frames = std::min(frames_per_image, num_frames - first);
    return std::as_bytes(std::span(pixels.rows(first, frames).as<float>(),
                                   static_cast<std::size_t>(frames * frame_values)));
  };
  std::vector<std::int64_t> first_equal;
  std::unordered_map<Hash128, std::int64_t> first_with;
  for (std::int64_t image = 0; image * frames_per_image < num_frames; ++image) {
    const std::span<const std::byte> bytes = bytes_of(image);
    const std::int64_t first = first_with.try_emplace(hash_bytes(bytes), image).first->second;
    const std::span<const std::byte> earlier = bytes_of(first);
    // Images whose hashes collide are different.
    const bool is_equal = std::equal(bytes.begin(), bytes.end(), earlier.begin(), earlier.end());
    first_equal.push_back(is_equal ? first : image);
  }
  return first_equal;
}

}  // namespace caption::model
