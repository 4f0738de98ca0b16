// base/sha256.h: SHA-256 (FIPS 180-4), used to identify content: clips, weights, pixels, pages.
//
// SHA-256 is collision-resistant even against deliberate attempts, so a digest may replace its
// content in records and caches. base/hash.h is faster, but detects accidental differences only.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/hash.h"

namespace caption {

struct Sha256 {
  std::array<std::uint8_t, 32> bytes = {};

  friend auto operator<=>(const Sha256&, const Sha256&) = default;

  std::string hex() const;  // 64 lower-case digits
  // The first 128 bits, for tables and file names: a collision still takes about 2^64 hashes.
  Hash128 short_key() const;
};

// std::nullopt unless `hex` is 64 lower-case hexadecimal digits.
std::optional<Sha256> parse_sha256(std::string_view hex);

// Incremental hashing: the digest of several updates is the digest of their concatenation.
// libcrypto selects the CPU's SHA instructions. For use by one thread at a time.
class Sha256Hasher {
 public:
  // Throws Error(kOutOfMemory | kUnavailable) when libcrypto gives no context.
  Sha256Hasher();
  ~Sha256Hasher();
  Sha256Hasher(const Sha256Hasher&) = delete;
  Sha256Hasher& operator=(const Sha256Hasher&) = delete;

  void update(std::span<const std::byte> bytes);
  // Length-prefixed, so that ("ab", "c") and ("a", "bc") differ.
  void update_string(std::string_view text);
  // Hashes the bytes of a number, an enumeration or another value without padding.
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void update_value(const T& value) { update(std::as_bytes(std::span(&value, 1))); }
  // Ends the message: update() must not be called afterwards.
  Sha256 digest();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Sha256 sha256_of(std::span<const std::byte> bytes);
Sha256 sha256_of(std::string_view text);

// Name and version of the loaded library: "OpenSSL 3.0.15".
std::string sha256_library();

}  // namespace caption
