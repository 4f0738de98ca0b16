// weights/renamed_source.h: the tensors of another source under other names.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weights/source.h"

namespace caption::weights {

// Tensors whose names begin with `from` are known by names that begin with `to` instead; both may
// be empty.
struct NamePrefix {
  std::string from;
  std::string to;
};

// The name of a tensor of the other source is changed by the longest `from` that it begins with,
// or not at all. Thread-safe as the other source.
class RenamedSource final : public Source {
 public:
  // Throws Error(kBadModel) when two tensors would have the same name.
  RenamedSource(std::unique_ptr<Source> source, const std::vector<NamePrefix>& prefixes);

  // Whether a name was changed by the entry at this place of the list.
  bool is_used(std::size_t prefix) const { return is_used_.at(prefix); }

  std::string name() const override { return source_->name(); }
  bool has(std::string_view tensor) const override { return theirs_.contains(tensor); }
  std::vector<std::string> names() const override;
  std::optional<Shape> shape(std::string_view tensor) const override;
  ConstView read(std::string_view tensor, const Shape& shape) override;
  std::optional<DType> dtype_of(std::string_view tensor) const override;
  std::vector<std::span<const std::byte>> mapped_bytes(std::string_view tensor) const override;
  void release(std::string_view tensor) override;
  std::optional<StoredCodes> codes_of(std::string_view tensor) const override;
  std::optional<StoredCodes> e4m3_of(std::string_view tensor) const override;
  QuantisedMatrix read_codes(std::string_view tensor, const Shape& shape, std::int64_t first,
                             std::int64_t count) const override;
  QuantisedMatrix borrow_codes(std::string_view tensor, const Shape& shape, std::int64_t first,
                               std::int64_t count) const override;
  bool has_decodable_rows(std::string_view tensor) const override;
  void decode_rows(std::string_view tensor, std::int64_t first, std::int64_t count,
                   float* to) const override;
  Sha256 content_hash(const DigestCache& digests) const override {
    return source_->content_hash(digests);
  }
  std::optional<std::string> find_changed_file() const override {
    return source_->find_changed_file();
  }
  std::optional<std::string> find_broken_tensor() const override {
    return source_->find_broken_tensor();
  }

 private:
  std::unique_ptr<Source> source_;
  std::map<std::string, std::string, std::less<>> theirs_;  // names of the other source, by ours
  std::vector<bool> is_used_;
};

}  // namespace caption::weights
