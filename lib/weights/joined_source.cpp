#include "weights/joined_source.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/mend_advice.h"
#include "weights/internal/safetensors.h"

namespace caption::weights {

JoinedSource::JoinedSource(std::vector<std::unique_ptr<Source>> sources)
    : sources_(std::move(sources)) {
  const std::vector<std::string> all = names();
  const auto twice = std::adjacent_find(all.begin(), all.end());
  if (twice == all.end()) return;
  throw Error(ErrorCode::kBadModel, name() + ": both have a tensor " + quote_name(*twice) +
                                        "; download or convert them again");
}

std::string JoinedSource::name() const {
  std::string text;
  for (const auto& source : sources_) text += (text.empty() ? "" : " and ") + source->name();
  return text;
}

std::vector<std::string> JoinedSource::names() const {
  std::vector<std::string> all;
  for (const auto& source : sources_) {
    std::vector<std::string> names = source->names();
    std::move(names.begin(), names.end(), std::back_inserter(all));
  }
  std::sort(all.begin(), all.end());
  return all;
}

std::optional<std::string> JoinedSource::file_name_of(std::string_view tensor) const {
  for (const auto& source : sources_) {
    if (auto name = source->file_name_of(tensor)) return name;
  }
  return std::nullopt;
}

std::optional<Shape> JoinedSource::shape(std::string_view tensor) const {
  const Source* const source = find(tensor);
  return source == nullptr ? std::nullopt : source->shape(tensor);
}

ConstView JoinedSource::read(std::string_view tensor, const Shape& shape) {
  return require(tensor, shape).read(tensor, shape);
}

std::optional<DType> JoinedSource::dtype_of(std::string_view tensor) const {
  const Source* const source = find(tensor);
  return source == nullptr ? std::nullopt : source->dtype_of(tensor);
}

std::vector<std::span<const std::byte>> JoinedSource::mapped_bytes(std::string_view tensor) const {
  const Source* const source = find(tensor);
  if (source == nullptr) return {};
  return source->mapped_bytes(tensor);
}

void JoinedSource::release(std::string_view tensor) {
  if (Source* const source = find(tensor)) source->release(tensor);
}

std::optional<StoredCodes> JoinedSource::codes_of(std::string_view tensor) const {
  const Source* const source = find(tensor);
  return source == nullptr ? std::nullopt : source->codes_of(tensor);
}

std::optional<StoredCodes> JoinedSource::e4m3_of(std::string_view tensor) const {
  const Source* const source = find(tensor);
  return source == nullptr ? std::nullopt : source->e4m3_of(tensor);
}

QuantisedMatrix JoinedSource::read_codes(std::string_view tensor, const Shape& shape,
                                         std::int64_t first, std::int64_t count) const {
  return require(tensor, shape).read_codes(tensor, shape, first, count);
}

QuantisedMatrix JoinedSource::borrow_codes(std::string_view tensor, const Shape& shape,
                                           std::int64_t first, std::int64_t count) const {
  return require(tensor, shape).borrow_codes(tensor, shape, first, count);
}

bool JoinedSource::has_decodable_rows(std::string_view tensor) const {
  const Source* const source = find(tensor);
  return source != nullptr && source->has_decodable_rows(tensor);
}

void JoinedSource::decode_rows(std::string_view tensor, std::int64_t first, std::int64_t count,
                               float* to) const {
  const Source* const source = find(tensor);
  CAPTION_CHECK(source != nullptr, name() + ": no tensor " + std::string(tensor));
  source->decode_rows(tensor, first, count, to);
}

Sha256 JoinedSource::content_hash(const DigestCache& digests) const {
  Sha256Hasher hasher;
  for (const auto& source : sources_) hasher.update_value(source->content_hash(digests).bytes);
  return hasher.digest();
}

std::optional<std::string> JoinedSource::find_changed_file() const {
  for (const auto& source : sources_) {
    if (auto changed = source->find_changed_file()) return changed;
  }
  return std::nullopt;
}

std::optional<std::string> JoinedSource::find_broken_tensor() const {
  for (const auto& source : sources_) {
    if (auto broken = source->find_broken_tensor()) return broken;
  }
  return std::nullopt;
}

Source* JoinedSource::find(std::string_view tensor) const {
  for (const auto& source : sources_) {
    if (source->has(tensor)) return source.get();
  }
  return nullptr;
}

Source& JoinedSource::require(std::string_view tensor, const Shape& shape) const {
  if (Source* const source = find(tensor)) return *source;
  for (const auto& source : sources_) {
    const std::optional<std::string> name = source->file_name_of(tensor);
    if (!name) continue;
    throw Error(ErrorCode::kBadModel, source->name() + ": tensor " + quote_name(*name) + " " +
                                          shape.to_string() + " is missing; " + kConvertAgain);
  }
  throw Error(ErrorCode::kBadModel, name() + ": tensor " + quote_name(tensor) + " " +
                                        shape.to_string() +
                                        " is missing; download or convert them again");
}

}  // namespace caption::weights
