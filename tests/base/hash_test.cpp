#include <doctest/doctest.h>

#include <set>
#include <string>

#include "base/hash.h"

namespace caption {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST_SUITE("base/hash") {
  TEST_CASE("digests are those of the reference implementation") {
    // python3 -c 'import xxhash; print(xxhash.xxh3_128_hexdigest(b"..."))', xxhash 3.x
    const struct {
      std::string text;
      const char* hex;
    } kRows[] = {
        {"", "99aa06d3014798d86001c324468d497f"},
        {"a", "a96faf705af16834e6c632b61e964e1f"},
        {"가나다", "59ac8be06a06ee29557a143aa21bc7ef"},
        {std::string(1000, 'x'), "50a1af5a5f2dcf01c0a4877b962cba82"},
    };
    for (const auto& row : kRows) {
      CAPTURE(row.text);
      CHECK(hash_string(row.text).hex() == row.hex);
    }
  }

  TEST_CASE("several updates are one hash of the concatenation") {
    const std::string text(5000, 'y');
    for (const std::size_t cut : {0u, 1u, 240u, 1024u, 5000u}) {
      Hasher hasher;
      hasher.update(bytes_of(text).first(cut));
      hasher.update(bytes_of(text).subspan(cut));
      CHECK(hasher.digest() == hash_string(text));
    }
  }

  TEST_CASE("strings are told apart where they meet") {
    std::set<Hash128> digests;
    for (const auto& [a, b] : {std::pair("ab", "c"), {"a", "bc"}, {"abc", ""}, {"", "abc"}}) {
      Hasher hasher;
      hasher.update_string(a);
      hasher.update_string(b);
      digests.insert(hasher.digest());
    }
    CHECK(digests.size() == 4);
  }

  TEST_CASE("hexadecimal text has the high half first and keeps leading zeros") {
    CHECK(Hash128{.high = 1, .low = 0xabc}.hex() == "00000000000000010000000000000abc");
  }
}

}  // namespace
}  // namespace caption
