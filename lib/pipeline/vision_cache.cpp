#include "pipeline/vision_cache.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <utility>

#include "base/sha256.h"

namespace caption::pipeline {
namespace {

constexpr std::int64_t kMaxCount = std::int64_t{1} << 31;

// The first value of a serialised clip; must be changed with the layout. Bytes that begin with
// another value are not parsed.
constexpr std::uint64_t kLayout = 0x3370'696c'6373'6363;  // "ccsclip3"

template <class T>
void append_value(std::vector<std::byte>& bytes, const T& value) {
  const std::size_t end = bytes.size();
  bytes.resize(end + sizeof value);
  std::memcpy(bytes.data() + end, &value, sizeof value);
}

void append_text(std::vector<std::byte>& bytes, const std::string& text) {
  append_value(bytes, static_cast<std::int64_t>(text.size()));
  const auto* const begin = reinterpret_cast<const std::byte*>(text.data());
  bytes.insert(bytes.end(), begin, begin + text.size());
}

// Reads values from the front. After a read past the end, all further reads fail.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <class T>
  T take() {
    T value{};
    const std::span<const std::byte> bytes = take_bytes(sizeof value);
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  std::int64_t take_count() {
    const auto count = take<std::int64_t>();
    if (count < 0 || count > kMaxCount) is_good_ = false;
    return is_good_ ? count : 0;
  }
  std::span<const std::byte> take_bytes(std::size_t count) {
    if (count > rest_.size()) is_good_ = false;
    if (!is_good_) return {};
    const auto bytes = rest_.first(count);
    rest_ = rest_.subspan(count);
    return bytes;
  }
  std::string take_text() {
    const auto bytes = take_bytes(static_cast<std::size_t>(take_count()));
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  bool is_good() const { return is_good_; }
  bool is_at_end() const { return is_good_ && rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
  bool is_good_ = true;
};

void append_shape(std::vector<std::byte>& bytes, const model::ClipShape& shape) {
  append_value(bytes, shape.num_frames);
  append_value(bytes, shape.frame.width_px);
  append_value(bytes, shape.frame.height_px);
  append_value(bytes, std::ssize(shape.times_s));
  for (const double time_s : shape.times_s) append_value(bytes, time_s);
}

model::ClipShape take_shape(Reader& reader) {
  model::ClipShape shape;
  shape.num_frames = reader.take_count();
  shape.frame.width_px = reader.take_count();
  shape.frame.height_px = reader.take_count();
  for (std::int64_t left = reader.take_count(); left > 0 && reader.is_good(); --left) {
    shape.times_s.push_back(reader.take<double>());
  }
  return shape;
}

}  // namespace

std::vector<std::byte> to_bytes(const SeenClip& clip) {
  std::vector<std::byte> bytes;
  append_value(bytes, kLayout);
  append_value(bytes, clip.pixel_content.high);
  append_value(bytes, clip.pixel_content.low);
  append_value(bytes, clip.frames_wanted);
  append_shape(bytes, clip.shape);
  append_value(bytes, clip.duration_us);
  append_text(bytes, clip.suspicion);
  append_value(bytes, std::ssize(clip.warnings));
  for (const std::string& warning : clip.warnings) append_text(bytes, warning);
  append_value(bytes, clip.tokens.dim(0));
  append_value(bytes, clip.tokens.dim(1));
  const auto* const begin = reinterpret_cast<const std::byte*>(clip.tokens.as<float>());
  bytes.insert(bytes.end(), begin, begin + clip.tokens.size_bytes());
  return bytes;
}

std::optional<SeenClip> parse_seen_clip(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  if (reader.take<std::uint64_t>() != kLayout) return std::nullopt;
  SeenClip clip;
  clip.pixel_content.high = reader.take<std::uint64_t>();
  clip.pixel_content.low = reader.take<std::uint64_t>();
  clip.frames_wanted = reader.take_count();
  clip.shape = take_shape(reader);
  clip.duration_us = reader.take<std::int64_t>();
  clip.shape.duration_us = clip.duration_us;
  clip.suspicion = reader.take_text();
  for (std::int64_t left = reader.take_count(); left > 0 && reader.is_good(); --left) {
    clip.warnings.push_back(reader.take_text());
  }
  const std::int64_t num_tokens = reader.take_count();
  const std::int64_t hidden = reader.take_count();
  if (!reader.is_good() || num_tokens == 0 || hidden == 0 ||
      num_tokens > std::numeric_limits<std::int64_t>::max() / 8 / hidden) {
    return std::nullopt;
  }
  const auto tokens = reader.take_bytes(static_cast<std::size_t>(num_tokens * hidden) * 4);
  if (!reader.is_at_end()) return std::nullopt;
  clip.tokens = Tensor(DType::kF32, {num_tokens, hidden});
  std::memcpy(clip.tokens.as<float>(), tokens.data(), tokens.size());
  return clip;
}

namespace {

// Prompts hold the times in digits, so that they have to be numbers of few digits.
bool is_plausible(const model::ClipShape& shape) {
  constexpr double kLongestS = 1e13;  // the range of whole microseconds
  const auto is_time = [](double time_s) { return std::abs(time_s) < kLongestS; };  // not for NaN
  return shape.num_frames > 0 && shape.frame.width_px > 0 && shape.frame.height_px > 0 &&
         std::ssize(shape.times_s) == shape.num_frames &&
         std::all_of(shape.times_s.begin(), shape.times_s.end(), is_time);
}

}  // namespace

VisionCache::VisionCache(const VisionCacheOptions& options, model::CaptionModel& model)
    : model_(model),
      width_(model.decoder().spec().vision_width()),
      identity_(options.identity),
      store_(options.folder, "vision", options.max_bytes) {}

Hash128 VisionCache::key_of(std::string_view content) const {
  Sha256Hasher hasher;
  hasher.update_string(identity_.hex());
  hasher.update_string(content);
  return hasher.digest().short_key();
}

std::optional<SeenClip> VisionCache::find(const Hash128& key) {
  if (!store_.contains(key)) return std::nullopt;
  const std::optional<std::vector<std::byte>> bytes = store_.get(key);
  if (!bytes.has_value()) return std::nullopt;
  std::optional<SeenClip> clip = parse_seen_clip(*bytes);
  const bool fits = clip.has_value() && is_plausible(clip->shape) &&
                    clip->tokens.dim(0) == model_.vision_tokens(clip->shape) &&
                    clip->tokens.dim(1) == width_;
  return fits ? std::move(clip) : std::nullopt;
}

void VisionCache::store(const Hash128& key, const SeenClip& clip) {
  store_.put(key, to_bytes(clip));
}

}  // namespace caption::pipeline
