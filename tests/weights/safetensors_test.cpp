// Invalid headers: one file of two tensors, with every kind of corruption.
#include <doctest/doctest.h>

#include <cstddef>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "weights/internal/safetensors.h"

namespace caption::weights {
namespace {

std::string file_of(const std::string& header, std::size_t buffer_bytes) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>((header.size() >> (8 * i)) & 0xFF);
  return file + header + std::string(buffer_bytes, '\x01');
}

std::vector<FileTensor> parsed(const std::string& file) {
  return parse_safetensors(std::as_bytes(std::span(file.data(), file.size())), "f");
}

// Returns the error message; "" when the file is accepted.
std::string refusal(const std::string& file) {
  try {
    parsed(file);
    return "";
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kBadModel);
    return error.what();
  }
}

std::string tensor(const char* name, const char* dtype, const char* shape, const char* offsets) {
  return std::string("\"") + name + R"(": {"dtype": ")" + dtype + R"(", "shape": )" + shape +
         R"(, "data_offsets": )" + offsets + "}";
}

// Pads the header as the safetensors library does, so that tensors are aligned.
std::string padded(std::string header) {
  while (header.size() % 8 != 0) header += ' ';
  return header;
}

TEST_SUITE("weights/safetensors") {
  TEST_CASE("tensors lie where the header says") {
    const std::string file = file_of(padded("{\"__metadata__\": {\"format\": \"pt\"}, " +
                                            tensor("b", "F32", "[2, 3]", "[0, 24]") + ", " +
                                            tensor("a", "I8", "[]", "[24, 25]") + ", " +
                                            tensor("e", "F32", "[0, 7]", "[25, 25]") + "}"),
                                     25);
    const auto tensors = parsed(file);
    REQUIRE(tensors.size() == 3);
    CHECK(tensors[0].name == "a");
    CHECK(tensors[0].num_elements == 1);
    CHECK(tensors[0].bytes.size() == 1);
    CHECK(tensors[1].name == "b");
    CHECK(tensors[1].dtype == DType::kF32);
    CHECK(tensors[1].extents == std::vector<std::int64_t>{2, 3});
    CHECK(tensors[1].bytes.size() == 24);
    CHECK(tensors[2].num_elements == 0);
    CHECK(tensors[2].bytes.empty());
  }

  // The sizes are those that safetensors 0.8 writes.
  TEST_CASE("tensors of every dtype of the format are listed") {
    struct Row {
      const char* dtype;
      const char* shape;
      const char* offsets;
      std::size_t bytes;
    };
    for (const Row& row :
         {Row{"C64", "[4]", "[0, 32]", 32}, Row{"F8_E4M3FNUZ", "[4]", "[0, 4]", 4},
          Row{"F8_E5M2FNUZ", "[4]", "[0, 4]", 4}, Row{"F4", "[8]", "[0, 4]", 4},
          Row{"F6_E2M3", "[2, 4]", "[0, 6]", 6}, Row{"F6_E3M2", "[8]", "[0, 6]", 6}}) {
      CAPTURE(row.dtype);
      const auto tensors = parsed(
          file_of(padded("{" + tensor("a", row.dtype, row.shape, row.offsets) + "}"), row.bytes));
      REQUIRE(tensors.size() == 1);
      CHECK(tensors[0].dtype_name == row.dtype);
      CHECK_FALSE(tensors[0].dtype.has_value());
      CHECK(tensors[0].bytes.size() == row.bytes);
    }
    CHECK(
        refusal(file_of(padded("{" + tensor("a", "F6_E2M3", "[3]", "[0, 2]") + "}"), 2)) ==
        "f: a: shape [3] of F6_E2M3 is no whole number of bytes; download the file again, or save "
        "it again with safetensors");
  }

  TEST_CASE("an entry may be written in any form of JSON") {
    for (const char* const entry : {
             R"({"dtype":"F32","shape":[2,3],"data_offsets":[0,24]})",
             R"({ "data_offsets" : [ 0 , 24 ] , "shape" : [ 2 , 3 ] , "dtype" : "F32" })",
             "{\n\t\"dtype\": \"F32\",\n\t\"shape\": [2, 3],\n\t\"data_offsets\": [0, 24]\n}",
             R"({"dtype":"\u004632","shape":[2,3],"data_offsets":[-0,24]})",
             R"({"dtype":"F32","shape":[2,3],"data_offsets":[0,24],"note":[true]})",
         }) {
      CAPTURE(entry);
      const auto tensors = parsed(file_of(padded(std::string("{\"a\":") + entry + "}"), 24));
      REQUIRE(tensors.size() == 1);
      CHECK(tensors[0].dtype == DType::kF32);
      CHECK(tensors[0].extents == std::vector<std::int64_t>{2, 3});
      CHECK(tensors[0].bytes.size() == 24);
    }
    for (const char* const entry : {
             R"({"dtype":"F32","shape":[2,3],"data_offsets":[0,24],"shape":[2,3]})",
             R"({"dtype":"F32","shape":[02,3],"data_offsets":[0,24]})",
             R"({"dtype":"F32","shape":[2,3,],"data_offsets":[0,24]})",
             R"({"dtype":"F32","shape":[2,3],"data_offsets":[0,24],})",
             R"({"dtype":"F32","shape":[2,3],"data_offsets":[0,9999999999999999999]})",
         }) {
      CAPTURE(entry);
      CHECK(refusal(file_of(padded(std::string("{\"a\":") + entry + "}"), 24)) != "");
    }
  }

  TEST_CASE("a file without tensors is a file") {
    CHECK(parsed(file_of("{}", 0)).empty());
    CHECK(parsed(file_of("{\"__metadata__\": {}}   ", 0)).empty());
    CHECK(parsed(file_of("{\"__metadata__\": null}", 0)).empty());
  }

  TEST_CASE("files that are no safetensors are refused") {
    std::string huge = file_of("{}", 0);
    huge[7] = '\x7f';
    std::string no_header = file_of("", 8);
    const struct {
      std::string file;
      const char* message;
    } kRows[] = {
        {"", "is no safetensors file: 0 bytes"},
        {"1234567", "is no safetensors file: 7 bytes"},
        {no_header, "the header at byte 8 is not a JSON object"},
        {huge, "its header would have 9151314442816847874 bytes"},
        {file_of("{}", 0).substr(0, 9), "is cut short: the header needs 10 bytes, the file has 9"},
        {file_of("[]", 0), "the header at byte 8 is not a JSON object"},
        {file_of(" {}", 0), "the header at byte 8 is not a JSON object"},
        {file_of("{}\0", 0) + "x", "1 bytes at the end belong to no tensor"},
        {file_of("{\"a\": }", 0),
         "f: not valid JSON: column 7: the value after : is missing; download the file again"},
        {"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"},
        {std::string("PK\x03\x04", 4) + std::string(60, '\0'), "is no safetensors file"},
    };
    for (const auto& row : kRows) {
      CAPTURE(std::string(row.message));
      const std::string message = refusal(row.file);
      CAPTURE(message);
      CHECK(message.find(row.message) != std::string::npos);
    }
  }

  TEST_CASE("tensors whose numbers do not agree are refused by name") {
    const struct {
      std::string tensors;
      std::size_t buffer_bytes;
      const char* message;
    } kRows[] = {
        {tensor("a", "F31", "[1]", "[0, 4]"), 4, "f: a: unknown dtype \"F31\""},
        {"\"a\": {\"shape\": [1], \"data_offsets\": [0, 4]}", 4, "f: a: dtype: is missing"},
        {"\"a\": {\"dtype\": \"I8\", \"data_offsets\": [0, 4]}", 4, "f: a: shape is missing"},
        {"\"a\": {\"dtype\": \"I8\", \"shape\": [4]}", 4, "data_offsets has 0 numbers"},
        {"\"a\": null", 0, "tensor \"a\" is null"},
        {"\"a\": 1", 0, "f: a: expected an object, found 1"},
        {tensor("a", "F32", "[1]", "[0, 4, 8]"), 8, "data_offsets has 3 numbers"},
        {tensor("a", "F32", "[1]", "[0, 3]"), 3, "do not span the 4 bytes of [1] F32"},
        {tensor("a", "F32", "[1]", "[4, 0]"), 4, "do not span"},
        {tensor("a", "F32", "[1]", "[-4, 0]"), 4, "do not span"},
        {tensor("a", "I8", "[0]", "[0, -9223372036854775808]"), 0, "do not span"},
        {tensor("a", "F32", "[-1]", "[0, 4]"), 4, "negative extent -1"},
        {tensor("a", "F32", "[1.0]", "[0, 4]"), 4, "f: a: shape: expected an integer, found 1"},
        {tensor("a", "F32", "[18446744073709551615]", "[0, 4]"), 4, "integer of 64 bits"},
        {tensor("a", "F32", "[4294967296, 4294967296]", "[0, 4]"), 4, "is beyond 63 bits"},
        {tensor("a", "F32", "[4611686018427387904]", "[0, 0]"), 0, "is beyond 63 bits"},
        {tensor("a", "I8", "[4]", "[0, 4]"), 3, "ends at byte 4 of the data, but the file has 3"},
        {tensor("a", "I8", "[4]", "[0, 4]"), 5, "1 bytes at the end belong to no tensor"},
        {tensor("a", "I8", "[4]", "[1, 5]"), 5, "\"a\" leaves a gap before it"},
        {tensor("a", "I8", "[4]", "[0, 4]") + ", " + tensor("b", "I8", "[4]", "[3, 7]"), 7,
         "\"b\" overlaps the one before it"},
        {tensor("a", "I8", "[4]", "[0, 4]") + ", " + tensor("b", "I8", "[4]", "[0, 4]"), 4,
         "\"b\" overlaps the one before it"},
        {tensor("a", "I8", "[4]", "[0, 4]") + ", " + tensor("b", "I8", "[4]", "[5, 9]"), 9,
         "\"b\" leaves a gap before it"},
        {tensor("a", "I8", "[4]", "[0, 4]") + ", " + tensor("a", "I8", "[4]", "[4, 8]"), 8,
         "key \"a\" appears twice"},
        {tensor("a", "I8", "[1]", "[0, 1]") + ", " + tensor("b", "F32", "[1]", "[1, 5]"), 5,
         "which is not aligned to its 4-byte elements"},
        {"\"__metadata__\": {\"a\": 1}", 0, "f: __metadata__.a: expected a string, found 1"},
        {"\"__metadata__\": []", 0, "f: __metadata__: expected an object, found []"},
        {"\"__metadata__\": true", 0, "f: __metadata__: expected an object, found true"},
        {"\"__metadata__\": {}, \"__metadata__\": {}", 0, "key \"__metadata__\" appears twice"},
    };
    for (const auto& row : kRows) {
      CAPTURE(row.tensors);
      const std::string message =
          refusal(file_of(padded(std::string("{") + row.tensors + "}"), row.buffer_bytes));
      CAPTURE(message);
      CHECK(message.find(row.message) != std::string::npos);
      CHECK(message.find(" again") != std::string::npos);  // what to do
    }
  }

  TEST_CASE("a shard's name cannot leave the folder") {
    const auto index = [](const std::string& shard) {
      std::string json = "{\"weight_map\": {\"a\": \"";
      json += shard;
      return json += "\"}}";
    };
    CHECK(parse_shard_index(index("x.safetensors"), "i").at("a") == "x.safetensors");
    CHECK(parse_shard_index(index("..x"), "i").at("a") == "..x");
    for (const char* shard : {"", ".", "..", "../x", "/etc/passwd", "a/b", "a\\\\b", "x\\u0000y"}) {
      CAPTURE(std::string(shard));
      CHECK_THROWS_WITH_AS(parse_shard_index(index(shard), "i"),
                           doctest::Contains("expected a file name of this folder"), Error);
    }
    for (const char* json : {"{}", "{\"weight_map\": {}}", "{\"weight_map\": []}", "[]",
                             "{\"weight_map\": {\"a\": 1}}"}) {
      CAPTURE(std::string(json));
      CHECK_THROWS_AS(parse_shard_index(json, "i"), Error);
    }
  }

  TEST_CASE("flipped bytes never crash and never give bytes outside the file") {
    const std::string good =
        file_of(padded(std::string("{") + tensor("a", "F16", "[2, 3]", "[0, 12]") + ", " +
                       tensor("b", "BF16", "[2]", "[12, 16]") + "}"),
                16);
    std::mt19937 rng(4);
    for (int round = 0; round < 5000; ++round) {
      std::string file = good;
      for (int flips = 0; flips < 2; ++flips) file[rng() % file.size()] = static_cast<char>(rng());
      try {
        for (const FileTensor& t : parsed(file)) {
          if (t.bytes.empty()) continue;
          const auto* begin = reinterpret_cast<const char*>(t.bytes.data());
          CHECK(begin >= file.data());
          CHECK(begin + t.bytes.size() <= file.data() + file.size());
        }
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::kBadModel);
      }
    }
  }
}

}  // namespace
}  // namespace caption::weights
