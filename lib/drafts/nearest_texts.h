// drafts/nearest_texts.h: the texts of the things that look most like another one.
//
// In captioning, a thing is a clip and its text a caption. What a thing looks like is a vector of
// features. A sketch of kSketch numbers is kept of it: every feature is added, with a sign, to one
// of them (feature hashing; Weinberger et al., arXiv:0902.2206), which keeps distances up to a
// relative error of about sqrt(2 / kSketch), and the sum is scaled to unit length, so that the
// order of the distances is that of the cosines.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace caption::drafts {

inline constexpr std::size_t kSketch = 128;
using Sketch = std::array<float, kSketch>;  // a vector of length 1, or of zeros

Sketch sketch_of(std::span<const float> features);

// Thread-safe.
class NearestTexts {
 public:
  using Text = std::shared_ptr<const std::vector<std::int32_t>>;

  // Holds at most max_bytes; the oldest texts are forgotten when they are full.
  explicit NearestTexts(std::int64_t max_bytes);

  // Only texts of the same `topic` are compared.
  void add(std::uint64_t topic, const Sketch& sketch, std::span<const std::int32_t> text);

  struct Found {
    Text text;
    float squared_distance = 0;  // squared distance of the two sketches, 0 to 4
  };
  // At most `most` texts, the nearest first: those at most kFarthest times as far as the nearest.
  std::vector<Found> find(std::uint64_t topic, const Sketch& sketch, std::size_t most) const;

  std::int64_t size_bytes() const;

  static constexpr float kFarthest = 1.5F;

 private:
  struct Entry {
    std::uint64_t topic = 0;
    Sketch sketch{};
    Text text;
  };
  static std::int64_t bytes_of(const Entry& entry);

  mutable std::mutex mutex_;
  const std::int64_t max_bytes_;
  std::int64_t size_bytes_ = 0;
  std::deque<Entry> entries_;  // the oldest first
};

}  // namespace caption::drafts
