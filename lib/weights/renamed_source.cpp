#include "weights/renamed_source.h"

#include <optional>
#include <utility>

#include "base/error.h"

namespace caption::weights {

RenamedSource::RenamedSource(std::unique_ptr<Source> source,
                             const std::vector<NamePrefix>& prefixes)
    : source_(std::move(source)), is_used_(prefixes.size(), false) {
  for (const std::string& theirs : source_->names()) {
    std::optional<std::size_t> longest;
    for (std::size_t i = 0; i < prefixes.size(); ++i) {
      if (!theirs.starts_with(prefixes[i].from)) continue;
      if (!longest || prefixes[i].from.size() > prefixes[*longest].from.size()) longest = i;
    }
    std::string ours = theirs;
    if (longest) {
      ours = prefixes[*longest].to + theirs.substr(prefixes[*longest].from.size());
      is_used_[*longest] = true;
    }
    const auto [at, is_new] = theirs_.emplace(ours, theirs);
    if (is_new) continue;
    throw Error(ErrorCode::kBadModel, source_->name() + ": tensors " + at->second + " and " +
                                          theirs + " would both be called " + ours +
                                          "; change model.tensor_names so that one is not");
  }
}

std::vector<std::string> RenamedSource::names() const {
  std::vector<std::string> names;
  for (const auto& [ours, theirs] : theirs_) names.push_back(ours);
  return names;
}

std::optional<Shape> RenamedSource::shape(std::string_view tensor) const {
  const auto found = theirs_.find(tensor);
  if (found == theirs_.end()) return std::nullopt;
  return source_->shape(found->second);
}

ConstView RenamedSource::read(std::string_view tensor, const Shape& shape) {
  const auto found = theirs_.find(tensor);
  // The other source's message says that the name is missing.
  return source_->read(found == theirs_.end() ? tensor : std::string_view(found->second), shape);
}

std::optional<DType> RenamedSource::dtype_of(std::string_view tensor) const {
  const auto found = theirs_.find(tensor);
  return found == theirs_.end() ? std::nullopt : source_->dtype_of(found->second);
}

std::vector<std::span<const std::byte>> RenamedSource::mapped_bytes(std::string_view tensor) const {
  const auto found = theirs_.find(tensor);
  if (found == theirs_.end()) return {};
  return source_->mapped_bytes(found->second);
}

void RenamedSource::release(std::string_view tensor) {
  const auto found = theirs_.find(tensor);
  if (found != theirs_.end()) source_->release(found->second);
}

std::optional<StoredCodes> RenamedSource::codes_of(std::string_view tensor) const {
  const auto found = theirs_.find(tensor);
  return found == theirs_.end() ? std::nullopt : source_->codes_of(found->second);
}

std::optional<StoredCodes> RenamedSource::e4m3_of(std::string_view tensor) const {
  const auto found = theirs_.find(tensor);
  return found == theirs_.end() ? std::nullopt : source_->e4m3_of(found->second);
}

QuantisedMatrix RenamedSource::read_codes(std::string_view tensor, const Shape& shape,
                                          std::int64_t first, std::int64_t count) const {
  const auto found = theirs_.find(tensor);
  return source_->read_codes(found == theirs_.end() ? tensor : std::string_view(found->second),
                             shape, first, count);
}

QuantisedMatrix RenamedSource::borrow_codes(std::string_view tensor, const Shape& shape,
                                            std::int64_t first, std::int64_t count) const {
  const auto found = theirs_.find(tensor);
  return source_->borrow_codes(found == theirs_.end() ? tensor : std::string_view(found->second),
                               shape, first, count);
}

bool RenamedSource::has_decodable_rows(std::string_view tensor) const {
  const auto found = theirs_.find(tensor);
  return found != theirs_.end() && source_->has_decodable_rows(found->second);
}

void RenamedSource::decode_rows(std::string_view tensor, std::int64_t first, std::int64_t count,
                                float* to) const {
  const auto found = theirs_.find(tensor);
  source_->decode_rows(found == theirs_.end() ? tensor : std::string_view(found->second), first,
                       count, to);
}

}  // namespace caption::weights
