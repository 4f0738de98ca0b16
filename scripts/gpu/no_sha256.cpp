// Takes the place of lib/base/sha256.cpp where libcrypto is not: nothing is hashed for content that
// is kept, because the programs of tests/gpu open no files and use no caches.
#include "base/error.h"
#include "base/sha256.h"

namespace caption {
namespace {

[[noreturn]] void refuse() {
  throw Error(ErrorCode::kUnavailable, "this build computes no SHA-256");
}

}  // namespace

struct Sha256Hasher::State {};

Sha256Hasher::Sha256Hasher() { refuse(); }
Sha256Hasher::~Sha256Hasher() = default;
void Sha256Hasher::update(std::span<const std::byte> /*bytes*/) { refuse(); }
void Sha256Hasher::update_string(std::string_view /*text*/) { refuse(); }
Sha256 Sha256Hasher::digest() { refuse(); }

std::string Sha256::hex() const { refuse(); }
Hash128 Sha256::short_key() const { refuse(); }
std::optional<Sha256> parse_sha256(std::string_view /*hex*/) { refuse(); }
Sha256 sha256_of(std::span<const std::byte> /*bytes*/) { refuse(); }
Sha256 sha256_of(std::string_view /*text*/) { refuse(); }
std::string sha256_library() { return "none"; }

}  // namespace caption
