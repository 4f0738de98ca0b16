// Reads the headers of GGUF files that are made here.
#include "weights/gguf.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"

namespace caption::weights {
namespace {

template <class T>
std::string number(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

std::string text(const std::string& value) {
  return number(static_cast<std::uint64_t>(value.size())) + value;
}

std::string string_entry(const std::string& key, const std::string& value) {
  return text(key) + number<std::uint32_t>(8) + text(value);
}

std::string tensor(const std::string& name, std::uint64_t columns, std::uint64_t rows) {
  return text(name) + number<std::uint32_t>(2) + number(columns) + number(rows) +
         number<std::uint32_t>(12) + number<std::uint64_t>(0);
}

std::string header(std::uint32_t version, std::uint64_t num_tensors, std::uint64_t num_entries) {
  return "GGUF" + number(version) + number(num_tensors) + number(num_entries);
}

// Entries of every kind, and two tensors of 12 and 20 weights.
std::string good_file() {
  return header(3, 2, 5) + string_entry("general.architecture", "qwen2") +
         text("general.file_type") + number<std::uint32_t>(4) + number<std::uint32_t>(15) +
         text("tokenizer.ggml.tokens") + number<std::uint32_t>(9) + number<std::uint32_t>(8) +
         number<std::uint64_t>(2) + text("a") + text("bc") + text("scores") +
         number<std::uint32_t>(9) + number<std::uint32_t>(6) + number<std::uint64_t>(3) +
         std::string(12, '\0') + string_entry("general.name", "Small") + tensor("x", 4, 3) +
         tensor("y", 5, 4) + std::string(64, '\1');
}

std::filesystem::path write(const std::string& content) {
  const std::filesystem::path path = std::filesystem::path(CAPTION_TEST_TMP) / "test.gguf";
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

TEST_SUITE("weights/gguf") {
  TEST_CASE("a header says what the file holds") {
    const GgufSummary summary = read_gguf_summary(write(good_file()));
    CHECK(summary.version == 3);
    CHECK(summary.architecture == "qwen2");
    CHECK(summary.name == "Small");
    CHECK(summary.num_tensors == 2);
    CHECK(summary.num_parameters == 32);
    CHECK(summary.file_bytes == static_cast<std::int64_t>(good_file().size()));
  }

  TEST_CASE("a header that ends early is refused, wherever it ends") {
    const std::string good = good_file();
    for (std::size_t length = 0; length < good.size() - 64; ++length) {
      CAPTURE(length);
      CHECK_THROWS_AS(read_gguf_summary(write(good.substr(0, length))), Error);
    }
  }

  TEST_CASE("impossible headers are refused") {
    constexpr std::uint64_t kHuge = std::uint64_t{1} << 63;
    const std::string cases[] = {
        "not a GGUF file at all",
        header(1, 0, 0),
        header(3, kHuge, 0),
        header(3, 0, kHuge),
        header(3, 0, 1) + number(kHuge),
        header(3, 0, 1) + text("k") + number<std::uint32_t>(99),
        header(3, 0, 1) + text("k") + number<std::uint32_t>(9) + number<std::uint32_t>(6) +
            number(kHuge),
        header(3, 0, 1) + text("k") + number<std::uint32_t>(9) + number<std::uint32_t>(9) +
            number<std::uint64_t>(1),
        header(3, 1, 0) + tensor("x", kHuge, 2),
        header(3, 1, 0) + tensor("x", 0, 2),
        header(3, 1, 0) + text("x") + number<std::uint32_t>(4096),
    };
    for (const std::string& content : cases) {
      CAPTURE(content.size());
      CHECK_THROWS_AS(read_gguf_summary(write(content)), Error);
    }
  }
}

}  // namespace
}  // namespace caption::weights
