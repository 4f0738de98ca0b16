#include "base/sha256.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <bit>
#include <cerrno>

#include "base/error.h"

namespace caption {
namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

// The algorithm is fetched once, because the lookup costs more than hashing a short text.
const EVP_MD* algorithm() {
  static EVP_MD* const fetched = [] {
    errno = 0;
    // EVP_MD_fetch() of OpenSSL 3.0 crashes when the library context ran out of memory while it was
    // created.
    if (OSSL_LIB_CTX_get0_global_default() == nullptr) {
      throw Error(ErrorCode::kOutOfMemory, "not enough memory for libcrypto");
    }
    EVP_MD* const found = EVP_MD_fetch(nullptr, "SHA256", nullptr);
    if (found != nullptr) return found;
    if (errno == ENOMEM) throw Error(ErrorCode::kOutOfMemory, "not enough memory for libcrypto");
    throw Error(ErrorCode::kUnavailable, "libcrypto has no SHA-256; is OpenSSL whole?");
  }();
  return fetched;
}

void require_done(int status) {
  if (status != 1) throw Error(ErrorCode::kOutOfMemory, "libcrypto cannot compute a SHA-256");
}

}  // namespace

std::string Sha256::hex() const {
  std::string out;
  out.reserve(2 * bytes.size());
  for (const std::uint8_t byte : bytes) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 0xF];
  }
  return out;
}

Hash128 Sha256::short_key() const {
  Hash128 key;
  for (std::size_t i = 0; i < 8; ++i) {
    key.high = key.high << 8 | bytes[i];
    key.low = key.low << 8 | bytes[8 + i];
  }
  return key;
}

std::optional<Sha256> parse_sha256(std::string_view hex) {
  Sha256 out;
  if (hex.size() != 2 * out.bytes.size()) return std::nullopt;
  for (std::size_t i = 0; i < hex.size(); ++i) {
    const std::size_t digit = kDigits.find(hex[i]);
    if (digit == std::string_view::npos) return std::nullopt;
    out.bytes[i / 2] = static_cast<std::uint8_t>(out.bytes[i / 2] << 4 | digit);
  }
  return out;
}

struct Sha256Hasher::State {
  EVP_MD_CTX* context = nullptr;
};

Sha256Hasher::Sha256Hasher() : state_(std::make_unique<State>()) {
  const EVP_MD* const sha256 = algorithm();
  state_->context = EVP_MD_CTX_new();
  if (state_->context == nullptr || EVP_DigestInit_ex2(state_->context, sha256, nullptr) != 1) {
    EVP_MD_CTX_free(state_->context);
    require_done(0);
  }
}

Sha256Hasher::~Sha256Hasher() { EVP_MD_CTX_free(state_->context); }

void Sha256Hasher::update(std::span<const std::byte> bytes) {
  require_done(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()));
}

void Sha256Hasher::update_string(std::string_view text) {
  static_assert(std::endian::native == std::endian::little, "lengths are hashed little-endian");
  update_value(static_cast<std::uint64_t>(text.size()));
  update(std::as_bytes(std::span(text.data(), text.size())));
}

Sha256 Sha256Hasher::digest() {
  Sha256 out;
  require_done(EVP_DigestFinal_ex(state_->context, out.bytes.data(), nullptr));
  return out;
}

Sha256 sha256_of(std::span<const std::byte> bytes) {
  Sha256Hasher hasher;
  hasher.update(bytes);
  return hasher.digest();
}

Sha256 sha256_of(std::string_view text) {
  return sha256_of(std::as_bytes(std::span(text.data(), text.size())));
}

std::string sha256_library() {
  return std::string("OpenSSL ") + OpenSSL_version(OPENSSL_VERSION_STRING);
}

}  // namespace caption
