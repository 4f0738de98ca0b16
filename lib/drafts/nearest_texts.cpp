#include "drafts/nearest_texts.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace caption::drafts {
namespace {

// A multiplicative hash (Knuth, TAOCP 6.4): its upper bits are the place and the sign.
constexpr std::uint32_t kMultiplier = 2654435761U;

// |a - b|^2. Several sums, so that the compiler can keep them in one register of a vector.
float squared_distance(const Sketch& a, const Sketch& b) {
  constexpr std::size_t kLanes = 8;
  static_assert(kSketch % kLanes == 0);
  std::array<float, kLanes> sums{};
  for (std::size_t i = 0; i < kSketch; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const float difference = a[i + lane] - b[i + lane];
      sums[lane] += difference * difference;
    }
  }
  float sum = 0;
  for (const float part : sums) sum += part;
  return sum;
}

}  // namespace

Sketch sketch_of(std::span<const float> features) {
  Sketch sketch{};
  for (std::size_t i = 0; i < features.size(); ++i) {
    const std::uint32_t hash = static_cast<std::uint32_t>(i + 1) * kMultiplier;
    const float feature = std::isfinite(features[i]) ? features[i] : 0;
    sketch[(hash >> 16) % kSketch] += (hash >> 31) == 0 ? feature : -feature;
  }
  double squares = 0;
  for (const float value : sketch) squares += static_cast<double>(value) * value;
  if (squares == 0) return sketch;
  const double scale = 1 / std::sqrt(squares);
  for (float& value : sketch) value = static_cast<float>(value * scale);
  return sketch;
}

NearestTexts::NearestTexts(std::int64_t max_bytes) : max_bytes_(max_bytes) {}

std::int64_t NearestTexts::bytes_of(const Entry& entry) {
  // A shared text has a counter and a vector beside its tokens.
  constexpr std::size_t kTextBytes = 64;
  return static_cast<std::int64_t>(sizeof(Entry) + kTextBytes +
                                   entry.text->size() * sizeof(std::int32_t));
}

void NearestTexts::add(std::uint64_t topic, const Sketch& sketch,
                       std::span<const std::int32_t> text) {
  if (text.empty()) return;
  Entry entry{.topic = topic,
              .sketch = sketch,
              .text = std::make_shared<const std::vector<std::int32_t>>(text.begin(), text.end())};
  const std::int64_t bytes = bytes_of(entry);
  if (bytes > max_bytes_) return;
  const std::lock_guard lock(mutex_);
  entries_.push_back(std::move(entry));
  size_bytes_ += bytes;
  while (size_bytes_ > max_bytes_) {
    size_bytes_ -= bytes_of(entries_.front());
    entries_.pop_front();
  }
}

std::vector<NearestTexts::Found> NearestTexts::find(std::uint64_t topic, const Sketch& sketch,
                                                    std::size_t most) const {
  std::vector<Found> nearest;
  const std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.topic != topic) continue;
    const float distance = squared_distance(sketch, entry.sketch);
    if (nearest.size() == most && distance >= nearest.back().squared_distance) continue;
    const auto place = std::upper_bound(
        nearest.begin(), nearest.end(), distance,
        [](float value, const Found& other) { return value < other.squared_distance; });
    nearest.insert(place, {.text = entry.text, .squared_distance = distance});
    if (nearest.size() > most) nearest.pop_back();
  }
  const auto is_far = [&](const Found& found) {
    return found.squared_distance > kFarthest * kFarthest * nearest.front().squared_distance;
  };
  nearest.erase(std::find_if(nearest.begin(), nearest.end(), is_far), nearest.end());
  return nearest;
}

std::int64_t NearestTexts::size_bytes() const {
  const std::lock_guard lock(mutex_);
  return size_bytes_;
}

}  // namespace caption::drafts
