// base/hash.h: 128-bit content hashes (XXH3-128, not cryptographic).
// Source: https://github.com/Cyan4973/xxHash, xxh3 specification 0.1.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace caption {

struct Hash128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the comparison with 0 for a pointer
  friend auto operator<=>(const Hash128&, const Hash128&) = default;
  // 32 lower-case hexadecimal digits, high half first.
  std::string hex() const;
};

Hash128 hash_bytes(std::span<const std::byte> bytes);
Hash128 hash_string(std::string_view text);

// Incremental form: the digest of several updates is the digest of their concatenation.
class Hasher {
 public:
  Hasher();  // throws Error(kOutOfMemory)
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void update(std::span<const std::byte> bytes);
  // Length-prefixed, so that ("ab", "c") and ("a", "bc") differ.
  void update_string(std::string_view text);
  Hash128 digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Version of the loaded xxHash library: "0.8.1".
std::string xxhash_version();

}  // namespace caption

// The bits of a Hash128 are uniformly distributed, so its low half is a good hash value.
template <>
struct std::hash<caption::Hash128> {
  std::size_t operator()(const caption::Hash128& key) const noexcept {
    return static_cast<std::size_t>(key.low);
  }
};
