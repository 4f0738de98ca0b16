#include "weights/random_source.h"

#include <utility>

#include "base/error.h"
#include "tensor/dtype.h"

namespace caption::weights {
namespace {

// splitmix64 (Steele, Lea, Flood 2014): computes the i-th number without the ones before it.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

std::uint64_t seed_of(std::uint64_t seed, std::string_view name) {
  for (const char c : name) seed = mix(seed ^ static_cast<unsigned char>(c));
  return mix(seed);
}

// A sum of four uniform 16-bit numbers, shifted to mean 0 and scaled to deviation 0.02: its density
// is within 4 % of the normal one up to two deviations, and it needs one 64-bit draw per weight.
float draw_weight(std::uint64_t seed, std::int64_t index) {
  const std::uint64_t bits = mix(seed ^ mix(static_cast<std::uint64_t>(index)));
  const std::uint64_t sum =
      (bits & 0xFFFFu) + ((bits >> 16) & 0xFFFFu) + ((bits >> 32) & 0xFFFFu) + (bits >> 48);
  // The sum of four uniform numbers on [0, 65536) has mean 131070 and deviation 65536 / sqrt(3).
  constexpr float kDeviation = 65536.0F / 1.7320508F;
  return (static_cast<float>(sum) - 131070.0F) * (0.02F / kDeviation);
}

float value_of(Fill fill, std::uint64_t seed, std::int64_t index) {
  switch (fill) {
    case Fill::kNormal: return draw_weight(seed, index);
    case Fill::kFaint: return draw_weight(seed, index) / 100;
    case Fill::kOne: return 1;
    case Fill::kZero: break;
  }
  return 0;
}

template <class T>
void fill_tensor(ThreadPool& pool, Fill fill, std::uint64_t seed, Tensor& tensor) {
  constexpr std::int64_t kChunk = 1 << 16;
  const std::int64_t count = tensor.num_elements();
  T* const values = tensor.as<T>();
  const auto fill_range = [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t i = from; i < to; ++i) {
      values[i] = from_float<T>(value_of(fill, seed, i));
    }
  };
  if (count <= kChunk) return fill_range(0, count);
  pool.parallel_for(count, kChunk, fill_range);
}

}  // namespace

RandomSource::RandomSource(ThreadPool& pool, std::vector<NewTensor> tensors, DType dtype,
                           std::uint64_t seed)
    : pool_(&pool), dtype_(dtype), seed_(seed) {
  for (NewTensor& tensor : tensors) {
    tensors_[std::move(tensor.name)] = {.shape = tensor.shape, .fill = tensor.fill, .made = {}};
  }
}

ConstView RandomSource::read(std::string_view tensor, const Shape& shape) {
  const auto found = tensors_.find(tensor);
  CAPTION_CHECK(found != tensors_.end() && found->second.shape == shape,
                "random weights: no tensor " + std::string(tensor) + " " + shape.to_string());
  Entry& entry = found->second;
  if (entry.made.empty()) {
    entry.made = Tensor(dtype_, shape);
    dispatch_float(dtype_, [&](auto element) {
      fill_tensor<decltype(element)>(*pool_, entry.fill, seed_of(seed_, tensor), entry.made);
    });
  }
  return std::as_const(entry.made).view();
}

std::vector<std::string> RandomSource::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : tensors_) names.push_back(name);
  return names;
}

std::optional<Shape> RandomSource::shape(std::string_view tensor) const {
  const auto found = tensors_.find(tensor);
  if (found == tensors_.end()) return std::nullopt;
  return found->second.shape;
}

void RandomSource::release(std::string_view tensor) {
  const auto found = tensors_.find(tensor);
  if (found != tensors_.end()) found->second.made = {};
}

Sha256 RandomSource::content_hash(const DigestCache& /*digests*/) const {
  Sha256Hasher hasher;
  hasher.update_string("caption-cli random weights");
  hasher.update_value(seed_);
  hasher.update_string(dtype_name(dtype_));
  for (const auto& [name, entry] : tensors_) {
    hasher.update_string(name);
    hasher.update_string(entry.shape.to_string());
    hasher.update_value(static_cast<std::uint8_t>(entry.fill));
  }
  return hasher.digest();
}

}  // namespace caption::weights
