#include "base/hash.h"

#include <xxhash.h>

#include <array>
#include <bit>
#include <cstdio>

#include "base/error.h"

namespace caption {
namespace {

Hash128 from_xxh(XXH128_hash_t hash) { return {.high = hash.high64, .low = hash.low64}; }

}  // namespace

std::string Hash128::hex() const {
  std::array<char, 33> text{};
  std::snprintf(text.data(), text.size(), "%016llx%016llx", static_cast<unsigned long long>(high),
                static_cast<unsigned long long>(low));
  return std::string(text.data(), 32);
}

Hash128 hash_bytes(std::span<const std::byte> bytes) {
  return from_xxh(XXH3_128bits(bytes.data(), bytes.size()));
}

Hash128 hash_string(std::string_view text) {
  return hash_bytes(std::as_bytes(std::span(text.data(), text.size())));
}

struct Hasher::State {
  XXH3_state_t* xxh = nullptr;
};

Hasher::Hasher() : state_(std::make_unique<State>()) {
  state_->xxh = XXH3_createState();
  if (state_->xxh == nullptr) throw Error(ErrorCode::kOutOfMemory, "not enough memory for a hash");
  XXH3_128bits_reset(state_->xxh);
}

Hasher::~Hasher() { XXH3_freeState(state_->xxh); }

void Hasher::update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}

void Hasher::update_string(std::string_view text) {
  static_assert(std::endian::native == std::endian::little, "lengths are hashed little-endian");
  const std::uint64_t length = text.size();
  update(std::as_bytes(std::span(&length, 1)));
  update(std::as_bytes(std::span(text.data(), text.size())));
}

Hash128 Hasher::digest() const { return from_xxh(XXH3_128bits_digest(state_->xxh)); }

std::string xxhash_version() {
  const unsigned version = XXH_versionNumber();  // major * 10000 + minor * 100 + release
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

}  // namespace caption
