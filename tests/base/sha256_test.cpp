#include "base/sha256.h"

#include <doctest/doctest.h>

#include <string>

namespace caption {
namespace {

TEST_SUITE_BEGIN("base/sha256");

// Examples of FIPS 180-4 (csrc.nist.gov, SHA256.pdf), and the empty message.
struct Row {
  const char* text;
  const char* hex;
};
constexpr Row kRows[] = {
    {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
};

TEST_CASE("agrees with the examples of the standard") {
  for (const Row& row : kRows) {
    CAPTURE(row.text);
    CHECK(sha256_of(std::string_view(row.text)).hex() == row.hex);
  }
}

TEST_CASE("updates in pieces give the digest of the whole") {
  const std::string text(100'000, 'x');
  Sha256Hasher hasher;
  for (std::size_t at = 0; at < text.size(); at += 777) {
    const std::string_view piece = std::string_view(text).substr(at, 777);
    hasher.update(std::as_bytes(std::span(piece.data(), piece.size())));
  }
  CHECK(hasher.digest() == sha256_of(text));
}

TEST_CASE("strings are told apart by their lengths") {
  Sha256Hasher one;
  one.update_string("ab");
  one.update_string("c");
  Sha256Hasher other;
  other.update_string("a");
  other.update_string("bc");
  CHECK(one.digest() != other.digest());
}

TEST_CASE("a digest is read back from its text, and from nothing else") {
  const Sha256 digest = sha256_of(std::string_view("abc"));
  CHECK(parse_sha256(digest.hex()) == digest);
  CHECK_FALSE(parse_sha256("ba7816").has_value());
  CHECK_FALSE(parse_sha256(std::string(64, 'G')).has_value());
  CHECK_FALSE(parse_sha256(std::string(64, 'A')).has_value());
}

TEST_CASE("the short key is the first half of the digest") {
  const Sha256 digest = sha256_of(std::string_view("abc"));
  CHECK(digest.short_key().hex() == digest.hex().substr(0, 32));
}

TEST_SUITE_END();

}  // namespace
}  // namespace caption
