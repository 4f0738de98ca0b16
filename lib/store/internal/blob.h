// store/internal/blob.h: the file format of a BlobStore: a fixed header, then the payload.
//
//   offset  size
//        0     8  magic "capblob\n"
//        8     4  format version
//       12     4  size of this header
//       16    16  kind, padded with zeros
//       32    16  key, high half first
//       48     8  size of the payload
//       56    16  XXH3-128 of the payload, high half first
// Integers are little-endian.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/hash.h"

namespace caption::store {

inline constexpr std::size_t kBlobHeaderBytes = 72;
inline constexpr std::size_t kMaxKindBytes = 16;

struct BlobName {
  std::string_view kind;  // at most kMaxKindBytes
  Hash128 key;
};

std::array<std::byte, kBlobHeaderBytes> make_blob_header(const BlobName& name,
                                                         std::span<const std::byte> payload);

// Describes what is wrong with the header of a file of `file_bytes` bytes as a phrase; empty if
// nothing is.
std::string describe_header_fault(std::span<const std::byte> header, const BlobName& name,
                                  std::uint64_t file_bytes);
// Returns whether the payload has the checksum in `header`, which must be free of faults.
bool payload_matches(std::span<const std::byte> header, std::span<const std::byte> payload);

}  // namespace caption::store
