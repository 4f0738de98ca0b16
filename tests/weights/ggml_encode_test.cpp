// Encoded rows have the bits that gguf-py gives them (scripts/make_goldens_gguf_write.py).
#include "weights/ggml_encode.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "tests/weights/gguf_goldens.h"

namespace caption::weights {
namespace {

const fs::path kWriteGoldens = CAPTION_SOURCE_DIR "/tests/golden/gguf_write";

std::vector<float> golden_values() {
  const MappedFile file(kWriteGoldens / "values.f32");
  std::vector<float> values(file.bytes().size() / sizeof(float));
  std::memcpy(values.data(), file.bytes().data(), file.bytes().size());
  return values;
}

std::vector<std::byte> encoded(GgmlType type, const std::vector<float>& values) {
  std::vector<std::byte> bytes(encoded_bytes(type, std::ssize(values)));
  encode_rows(type, values, bytes);
  return bytes;
}

TEST_SUITE("weights/ggml_encode") {
  TEST_CASE("blocks have the bits of gguf-py") {
    const struct {
      GgmlType type;
      const char* file;
    } kCases[] = {{GgmlType::kF16, "F16.bin"},
                  {GgmlType::kBF16, "BF16.bin"},
                  {GgmlType::kQ8_0, "Q8_0.bin"},
                  {GgmlType::kQ4_0, "Q4_0.bin"},
                  {GgmlType::kF32, "values.f32"}};
    const std::vector<float> values = golden_values();
    REQUIRE(values.size() > 6000);
    for (const auto& c : kCases) {
      CAPTURE(std::string(c.file));
      const MappedFile expected(kWriteGoldens / c.file);
      const std::vector<std::byte> found = encoded(c.type, values);
      REQUIRE(found.size() == expected.bytes().size());
      CHECK(std::memcmp(found.data(), expected.bytes().data(), found.size()) == 0);
    }
  }

  TEST_CASE("codes differ from their numbers by at most half a step, and a step at Q4_0's end") {
    const std::vector<float> values = golden_values();
    for (const GgmlType type : {GgmlType::kQ8_0, GgmlType::kQ4_0}) {
      const std::vector<std::byte> bytes = encoded(type, values);
      std::vector<float> decoded(values.size());
      decode_rows(
          {.type = type, .bytes = bytes, .num_columns = std::ssize(values), .first = 0, .count = 1},
          decoded.data());
      // Codes -127 to 127 and -8 to 7: the side of the largest number has a code more. The scale is
      // rounded to f16, by 2^-11 of it, or by 2^-25 where f16 is subnormal.
      const float levels = type == GgmlType::kQ8_0 ? 127.0F : 8.0F;
      const float steps = type == GgmlType::kQ8_0 ? 0.5F : 1.0F;
      for (std::size_t at = 0; at < values.size(); at += 32) {
        float largest = 0;
        for (std::size_t i = at; i < at + 32; ++i) {
          largest = std::max(largest, std::fabs(values[i]));
        }
        const float step = largest / levels;
        const float bound = step * (steps + 1e-5F) + largest * 0x1p-11F + levels * 0x1p-25F;
        for (std::size_t i = at; i < at + 32; ++i) {
          CAPTURE(values[i]);
          CHECK(std::fabs(values[i] - decoded[i]) <= bound);
        }
      }
    }
  }

  TEST_CASE("numbers that a type cannot hold are refused") {
    const auto message = [](GgmlType type, float value) {
      std::vector<float> values(32, 0.5F);
      values[7] = value;
      return refusal(ErrorCode::kBadModel, [&] { encoded(type, values); });
    };
    const float infinity = std::numeric_limits<float>::infinity();
    for (const GgmlType type : {GgmlType::kF16, GgmlType::kQ8_0, GgmlType::kQ4_0}) {
      for (const float value : {infinity, std::nanf("")}) {
        CHECK(message(type, value) == "a weight is not a finite number; download the file again");
      }
    }
    CHECK(message(GgmlType::kF16, 65504.0F) == "");
    CHECK(message(GgmlType::kF16, 65536.0F) ==
          "the weight 65536 exceeds 65504, the largest number of f16; choose another format");
    CHECK(message(GgmlType::kQ8_0, 65536.0F) == "");
    check_contains(message(GgmlType::kQ8_0, 1e8F), "a scale of Q8_0, 787401.");
    check_contains(message(GgmlType::kQ4_0, 1e8F), "a scale of Q4_0, -12500000 exceeds 65504");
    std::vector<std::byte> bytes(34);
    CHECK_THROWS_AS(encode_rows(GgmlType::kQ4_0, std::vector<float>(32), bytes), Error);
    CHECK_THROWS_AS(encode_rows(GgmlType::kQ6_K, std::vector<float>(256), bytes), Error);
  }
}

}  // namespace
}  // namespace caption::weights
