#include "model/internal/distinct_frames.h"

#include <cstddef>
#include <cstring>
#include <span>
#include <unordered_map>

#include "base/hash.h"

namespace caption::model {
namespace {

std::span<const std::byte> bytes_of(ConstView pixels, std::int64_t frame) {
  const auto size = static_cast<std::size_t>(pixels.num_elements() / pixels.dim(0));
  return std::as_bytes(std::span(pixels.rows(frame, 1).as<float>(), size));
}

}  // namespace

DistinctFrames find_distinct_frames(ConstView pixels) {
  DistinctFrames found;
  std::unordered_map<Hash128, std::int64_t> places;  // in found.frames
  for (std::int64_t frame = 0; frame < pixels.dim(0); ++frame) {
    const std::span<const std::byte> bytes = bytes_of(pixels, frame);
    const auto next = static_cast<std::int64_t>(found.frames.size());
    const auto [place, is_new] = places.try_emplace(hash_bytes(bytes), next);
    std::int64_t index = place->second;
    if (!is_new) {
      const std::int64_t earlier = found.frames[static_cast<std::size_t>(index)];
      const bool is_equal =
          std::memcmp(bytes.data(), bytes_of(pixels, earlier).data(), bytes.size()) == 0;
      if (!is_equal) index = next;  // the hashes collide
    }
    if (index == next) found.frames.push_back(frame);
    found.index.push_back(index);
  }
  return found;
}

Tensor select_frames(ConstView pixels, const std::vector<std::int64_t>& frames) {
  const auto count = static_cast<std::int64_t>(frames.size());
  Tensor selected(DType::kF32, {count, pixels.dim(1), pixels.dim(2), pixels.dim(3)});
  for (std::int64_t i = 0; i < count; ++i) {
    const std::span<const std::byte> bytes = bytes_of(pixels, frames[static_cast<std::size_t>(i)]);
    std::memcpy(selected.view().rows(i, 1).raw(), bytes.data(), bytes.size());
  }
  return selected;
}

}  // namespace caption::model
