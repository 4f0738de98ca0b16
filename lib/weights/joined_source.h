// weights/joined_source.h: the tensors of several sources as those of one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weights/source.h"

namespace caption::weights {

// Thread-safe as the sources that it is made of.
class JoinedSource final : public Source {
 public:
  // Throws Error(kBadModel) when two of them have a tensor of the same name.
  explicit JoinedSource(std::vector<std::unique_ptr<Source>> sources);

  std::string name() const override;  // all their names, with " and " between them
  bool has(std::string_view tensor) const override { return find(tensor) != nullptr; }
  std::vector<std::string> names() const override;
  std::optional<std::string> file_name_of(std::string_view tensor) const override;
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
  Sha256 content_hash(const DigestCache& digests) const override;
  std::optional<std::string> find_changed_file() const override;
  std::optional<std::string> find_broken_tensor() const override;

 private:
  Source* find(std::string_view tensor) const;  // nullptr when none has it
  Source& require(std::string_view tensor, const Shape& shape) const;

  std::vector<std::unique_ptr<Source>> sources_;
};

}  // namespace caption::weights
