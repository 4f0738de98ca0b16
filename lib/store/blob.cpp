#include "store/internal/blob.h"

#include <bit>
#include <cstring>

namespace caption::store {
namespace {

static_assert(std::endian::native == std::endian::little, "headers are copied as they are");

constexpr std::uint32_t kVersion = 1;

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t header_bytes;
  char kind[kMaxKindBytes];
  std::uint64_t key_high, key_low;
  std::uint64_t payload_bytes;
  std::uint64_t checksum_high, checksum_low;
};
static_assert(sizeof(Header) == kBlobHeaderBytes);

constexpr char kMagic[8] = {'c', 'a', 'p', 'b', 'l', 'o', 'b', '\n'};

Header expected_header(const BlobName& name) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.header_bytes = kBlobHeaderBytes;
  name.kind.copy(header.kind, kMaxKindBytes);
  header.key_high = name.key.high;
  header.key_low = name.key.low;
  return header;
}

Header read_header(std::span<const std::byte> bytes) {
  Header header{};
  std::memcpy(&header, bytes.data(), sizeof header);
  return header;
}

}  // namespace

std::array<std::byte, kBlobHeaderBytes> make_blob_header(const BlobName& name,
                                                         std::span<const std::byte> payload) {
  Header header = expected_header(name);
  header.payload_bytes = payload.size();
  const Hash128 checksum = hash_bytes(payload);
  header.checksum_high = checksum.high;
  header.checksum_low = checksum.low;
  return std::bit_cast<std::array<std::byte, kBlobHeaderBytes>>(header);
}

std::string describe_header_fault(std::span<const std::byte> header, const BlobName& name,
                                  std::uint64_t file_bytes) {
  if (header.size() < kBlobHeaderBytes) return "is cut short";
  const Header found = read_header(header);
  const Header wanted = expected_header(name);
  if (std::memcmp(found.magic, wanted.magic, sizeof found.magic) != 0) return "is no cache file";
  if (found.version != wanted.version) {
    return "is of format version " + std::to_string(found.version) + ", not " +
           std::to_string(wanted.version);
  }
  if (found.header_bytes != wanted.header_bytes) return "has a damaged header";
  if (std::memcmp(found.kind, wanted.kind, sizeof found.kind) != 0) return "holds another kind";
  if (found.key_high != wanted.key_high || found.key_low != wanted.key_low) {
    return "holds another key";
  }
  if (file_bytes - kBlobHeaderBytes != found.payload_bytes) return "is cut short or damaged";
  return {};
}

bool payload_matches(std::span<const std::byte> header, std::span<const std::byte> payload) {
  const Header found = read_header(header);
  return payload.size() == found.payload_bytes &&
         hash_bytes(payload) == Hash128{found.checksum_high, found.checksum_low};
}

}  // namespace caption::store
