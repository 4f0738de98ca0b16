// GGUF files: what gguf-py wrote, and every kind of corruption.
#include "weights/gguf_file.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "tests/weights/gguf_bytes.h"
#include "weights/internal/gguf_parser.h"

namespace caption::weights {
namespace {

namespace fs = std::filesystem;

const fs::path kGoldens = CAPTION_SOURCE_DIR "/tests/golden/gguf";

GgufHeader parsed(const std::string& file) {
  return parse_gguf(std::as_bytes(std::span(file.data(), file.size())), "f");
}

// Returns the error message; "" when the file is accepted.
std::string refusal(const std::string& file, ErrorCode code = ErrorCode::kBadModel) {
  try {
    parsed(file);
    return "";
  } catch (const Error& error) {
    CHECK(error.code() == code);
    return error.what();
  }
}

fs::path fresh_folder(const std::string& name) {
  const fs::path folder = fs::path(CAPTION_TEST_TMP) / name;
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

void write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

GgufBytes small_file() {
  GgufBytes file;
  file.add_string("general.architecture", "llama").add_u32("llama.block_count", 2);
  file.add_tensor("b", {2, 3}, GgmlType::kF32, std::string(24, '\1'));
  file.add_tensor("a", {3, 32}, GgmlType::kQ8_0, std::string(102, '\2'));
  return file;
}

TEST_SUITE("weights/gguf_file") {
  TEST_CASE("keys of every type have the values that gguf-py wrote") {
    const GgufFile file = GgufFile::open(kGoldens / "types.gguf");
    const GgufMetadata& metadata = file.metadata();
    const JsonObject expected = JsonObject::open(kGoldens / "expected.json", ErrorCode::kBadModel);
    const JsonObject scalars = *expected.get_object("scalars");
    for (const char* name : {"u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64"}) {
      CAPTURE(std::string(name));
      const std::string key = std::string("test.") + name;
      const std::int64_t value = scalars.require_int(name, INT64_MIN, INT64_MAX);
      CHECK(metadata.require_int(key, INT64_MIN, INT64_MAX) == value);
      CHECK(metadata.require_double(key) == static_cast<double>(value));
      CHECK(gguf_type_name(metadata.find(key)->type) == name);
    }
    CHECK(metadata.require_double("test.f32") == scalars.get_double("f32", 0));
    CHECK(metadata.require_double("test.f64") == scalars.get_double("f64", 0));
    CHECK(metadata.get_bool("test.bool", false));
    CHECK(metadata.require_string("test.string") == scalars.require_string("string"));
    CHECK(metadata.require_int("general.alignment", 1, 64) == 64);
    CHECK(metadata.get_ints("test.ints") == std::vector<std::int64_t>{3, -1, 2});
    CHECK(metadata.get_doubles("test.floats") == std::vector<double>{0.5, -2.0});
    CHECK(metadata.get_bools("test.bools") == std::vector<bool>{true, false, true});
    CHECK(metadata.get_strings("test.strings") == std::vector<std::string_view>{"a", "", "가나"});
    CHECK(metadata.find("test.nested")->element_type == GgufType::kArray);
    CHECK(metadata.find("test.nested")->num_elements == 2);
    CHECK(file.tensors().size() == 12);
    CHECK(!file.find_changed_file());
  }

  TEST_CASE("values of another type or outside a range are refused by key") {
    const GgufFile file = GgufFile::open(kGoldens / "types.gguf");
    const GgufMetadata& metadata = file.metadata();
    const auto message_of = [](auto work) -> std::string {
      try {
        work();
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::kBadModel);
        return error.what();
      }
      return "";
    };
    const auto contains = [](const std::string& message, const char* part) {
      CAPTURE(message);
      CHECK(message.find(part) != std::string::npos);
    };
    contains(message_of([&] { metadata.require_int("test.string", 0, 1); }),
             "types.gguf: test.string: expected a whole number, found string");
    contains(message_of([&] { metadata.require_int("test.f32", 0, 1); }), "found f32");
    contains(message_of([&] { metadata.require_int("test.ints", 0, 1); }), "found array of i32");
    contains(message_of([&] { metadata.require_int("test.u8", 0, 199); }),
             "expected 0 to 199, found 200");
    contains(message_of([&] { metadata.require_string("test.u8"); }), "expected a string");
    contains(message_of([&] { metadata.get_bool("test.u8", false); }), "expected a bool");
    contains(message_of([&] { metadata.require_double("test.bool"); }), "expected a number");
    contains(message_of([&] { metadata.get_strings("test.ints"); }), "expected strings");
    contains(message_of([&] { metadata.get_ints("test.strings"); }), "expected whole numbers");
    contains(message_of([&] { metadata.get_ints("test.nested"); }), "expected whole numbers");
    contains(message_of([&] { metadata.get_bools("test.ints"); }), "expected bools");
    contains(message_of([&] { metadata.require_int("none", 0, 1); }), "none: is missing");
    CHECK(metadata.get_int("none", 7, 0, 1) == 7);
    CHECK(metadata.get_strings("none").empty());
    CHECK(metadata.get_ints("test.u8") == std::vector<std::int64_t>{200});
    const std::string large = GgufBytes().add("x", GgufType::kU64, std::string(8, '\xFF')).text();
    const GgufHeader header = parsed(large);
    contains(message_of([&] { header.metadata.require_int("x", 0, 1); }), "above 2^63");
    contains(message_of([&] { header.metadata.get_ints("x"); }), "below 2^63");
  }

  TEST_CASE("tensors lie where the header says") {
    const std::string file = small_file().text();
    const GgufHeader header = parsed(file);
    REQUIRE(header.tensors.size() == 2);
    CHECK(header.tensors[0].name == "a");
    CHECK(header.tensors[0].type->name == "Q8_0");
    CHECK(header.tensors[0].bytes.size() == 102);
    CHECK(header.tensors[0].bytes[0] == std::byte{2});
    CHECK(header.tensors[1].name == "b");
    CHECK(header.tensors[1].rank == 2);
    CHECK(header.tensors[1].extents[0] == 2);
    CHECK(header.tensors[1].extents[1] == 3);
    CHECK(header.tensors[1].bytes[23] == std::byte{1});
    CHECK(parsed(GgufBytes().text()).tensors.empty());
    GgufBytes version_2 = small_file();
    version_2.version = 2;
    CHECK(parsed(version_2.text()).tensors.size() == 2);
    // The padding after the last tensor may be missing.
    CHECK(parsed(file.substr(0, file.size() - 26)).tensors.size() == 2);
  }

  TEST_CASE("a file says its version, sizes and counts") {
    const std::string bytes = small_file().text();
    const fs::path path = fresh_folder("gguf_sizes") / "model.gguf";
    write(path, bytes);
    const GgufFile file = GgufFile::open(path);
    CHECK(file.version() == 3);
    CHECK(std::ssize(file.files()) == 1);
    CHECK(file.size_bytes() == std::ssize(bytes));
    CHECK(file.num_parameters() == 2 * 3 + 3 * 32);
    const std::vector<StoredDType> dtypes = file.dtypes();
    REQUIRE(dtypes.size() == 2);
    CHECK(dtypes[0].name == "Q8_0");
    CHECK(dtypes[0].num_parameters == 3 * 32);
    CHECK(dtypes[0].size_bytes == 3 * 34);
    CHECK(dtypes[1].name == "F32");
    CHECK(GgufFile::open(kGoldens / "parts-00001-of-00003.gguf").files().size() == 3);
    GgufBytes old = small_file();
    old.version = 2;
    write(path, old.text());
    CHECK(GgufFile::open(path).version() == 2);
  }

  TEST_CASE("a header that ends early is refused, wherever it ends") {
    const std::string bytes = small_file().text();
    for (std::size_t length = 0; length + 26 < bytes.size(); ++length) {
      CAPTURE(length);
      CHECK(refusal(bytes.substr(0, length)) != "");
    }
  }

  TEST_CASE("files of another format, version or byte order are refused by name") {
    GgufBytes old = small_file();
    old.version = 1;
    GgufBytes next = small_file();
    next.version = 4;
    GgufBytes big = small_file();
    big.version = 0x03000000;
    const ErrorCode unavailable = ErrorCode::kUnavailable;
    CHECK(refusal(old.text(), unavailable) ==
          "f: is a GGUF file of version 1; this build reads versions 2 and 3; convert the "
          "model again");
    CHECK(refusal(next.text(), unavailable).find("version 4") != std::string::npos);
    CHECK(refusal(big.text(), unavailable).find("big-endian") != std::string::npos);
    CHECK(refusal("").find("is no GGUF file") != std::string::npos);
    CHECK(refusal("GGU").find("is no GGUF file") != std::string::npos);
    CHECK(refusal("tjgg" + std::string(60, '\0')).find("older format") != std::string::npos);
    CHECK(refusal("version https://git-lfs.github.com/spec/v1\n").find("git lfs pull") !=
          std::string::npos);
    GgufBytes unknown;
    unknown.add_tensor("t", {32}, 31, std::string(18, '\0'));
    CHECK(refusal(unknown.text(), unavailable).find("\"t\": has the type 31") != std::string::npos);
  }

  TEST_CASE("keys that are not valid are refused") {
    const std::string none;
    const auto one = [](std::string_view key, std::uint32_t type, const std::string& value) {
      return GgufBytes().add(key, type, value).text();
    };
    const auto array = [](std::uint32_t type, std::uint64_t count, const std::string& elements) {
      return bytes_of(type) + bytes_of(count) + elements;
    };
    std::string nested = gguf_array(GgufType::kU8, 1, "x");
    for (int i = 0; i < 4; ++i) nested = gguf_array(GgufType::kArray, 1, nested);
    GgufBytes more_pairs = small_file();
    more_pairs.extra_pairs = std::uint64_t{1} << 60;
    GgufBytes more_tensors = small_file();
    more_tensors.extra_tensors = std::uint64_t{1} << 60;
    const std::uint64_t huge = ~std::uint64_t{0};
    const struct {
      std::string file;
      const char* message;
    } kRows[] = {
        {one("", 0, "x"), "f: a key at byte 24 is \"\"; expected 1 to 65535 characters of ASCII"},
        {one("a\n", 0, "x"), "expected 1 to 65535 characters"},
        {one("\xEA\xB0\x80", 0, "x"), "expected 1 to 65535 characters"},
        {one(std::string(65536, 'a'), 0, "x"), "expected 1 to 65535 characters"},
        {one("a", 13, "x"), "f: \"a\" has a value of the unknown type 13"},
        {one("a", 7, "\2"), "\"a\" has a bool that is neither 0 nor 1"},
        {one("a", 8, bytes_of(huge)), "f: a at byte 45 would have 18446744073709551615 bytes"},
        {one("a", 9, array(0, huge, none)), "\"a\" has an array of 18446744073709551615 u8"},
        {one("a", 9, array(12, huge / 8 + 1, none)), "an array of 2305843009213693952 f64"},
        {one("a", 9, array(8, huge, none)), "the file may be cut short"},
        {one("a", 9, array(14, 1, none)), "unknown type 14"},
        {one("a", 9, array(7, 2, std::string("\1\3"))), "neither 0 nor 1"},
        {one("a", 9, array(9, huge, none)), "the file may be cut short"},
        {one("a", 9, nested), "arrays nested deeper than 4 levels"},
        {GgufBytes().add("a", 0, "x").add("b", 0, "x").add("a", 0, "x").text(),
         "f: the key \"a\" is there twice"},
        {more_pairs.text(), "keys by its header, more than"},
        {more_tensors.text(), "tensors by its header, more than"},
        {GgufBytes().add_u32("general.alignment", 24).add_tensor("t", {1}, 0, "1234").text(),
         "general.alignment: 24 is no power of two"},
        {GgufBytes().add_u32("general.alignment", 0).add_tensor("t", {1}, 0, "1234").text(),
         "general.alignment: expected 1 to"},
        {GgufBytes().add_string("general.alignment", "32").text(),
         "general.alignment: expected a whole number, found string"},
        {GgufBytes().text().substr(0, 20), "the number of keys at byte 16 would have 8 bytes"},
    };
    for (const auto& row : kRows) {
      CAPTURE(std::string(row.message));
      const std::string message = refusal(row.file);
      CAPTURE(message);
      CHECK(message.find(row.message) != std::string::npos);
    }
  }

  TEST_CASE("tensors whose numbers do not agree are refused by name") {
    const std::string bytes(34, '\0');
    const auto one = [](const std::vector<std::uint64_t>& extents, std::uint32_t type,
                        const std::string& data, std::uint64_t shift = 0) {
      return GgufBytes().add_tensor("t", extents, type, data, shift).text();
    };
    GgufBytes longer = small_file();
    longer.tail = "x";
    GgufBytes aligned;
    aligned.alignment = 2;
    aligned.add_u32("general.alignment", 2).add_tensor("t", {1}, 0, "1234");
    GgufBytes twice = small_file();
    twice.add_tensor("a", {1}, GgmlType::kF32, "1234");
    const std::uint64_t half = std::uint64_t{1} << 62;
    const struct {
      std::string file;
      const char* message;
    } kRows[] = {
        {one({}, 0, "1234"), "f: tensor \"t\": has 0 axes; expected 1 to 4"},
        {one({1, 1, 1, 1, 1}, 0, "1234"), "has 5 axes"},
        {one({0}, 0, ""), "has an axis of 0 elements"},
        {one({half * 2}, 0, ""), "has an axis of -9223372036854775808 elements"},
        {one({33}, 8, bytes),
         "has rows of 33 elements, which are no whole blocks of 32 of the type "
         "Q8_0"},
        {one({half}, 0, ""), "[4611686018427387904] of F32 is beyond 63 bits"},
        {one({half / 2, 32}, 2, ""), "is beyond 63 bits"},
        {one({half, 256}, 14, ""), "is beyond 63 bits"},
        {one({1}, 0, "1234", 32), "begins at byte 32 of the data, 0 expected"},
        {one({1}, 0, "1234", 1), "begins at byte 1 of the data, 0 expected"},
        {one({64}, 8, bytes), "needs 68 bytes from byte 0 of the data on, but the file has 64"},
        {GgufBytes().add_tensor("a", {1}, 0, "1234").add_tensor("b", {1}, 0, "1234", 1).text(),
         "\"b\": begins at byte 33 of the data, 32 expected"},
        {small_file().text().substr(0, 100), "the file may be cut short"},
        {longer.text(), "27 bytes at the end belong to no tensor, where at most 26"},
        {aligned.text(), "which is not aligned to its 4-byte elements"},
        {twice.text(), "f: tensor \"a\" is there twice"},
        {GgufBytes().add_tensor("", {1}, 0, "1234").text(), "the name of a tensor at byte 24"},
    };
    for (const auto& row : kRows) {
      CAPTURE(std::string(row.message));
      const std::string message = refusal(row.file);
      CAPTURE(message);
      CHECK(message.find(row.message) != std::string::npos);
      CHECK(message.find("; ") != std::string::npos);  // what to do
    }
  }

  TEST_CASE("the parts of a file are one model") {
    const GgufFile file = GgufFile::open(kGoldens / "parts-00001-of-00003.gguf");
    REQUIRE(file.tensors().size() == 3);
    for (int i = 0; i < 3; ++i) {
      const GgufTensor& tensor = file.tensors()[static_cast<std::size_t>(i)];
      CHECK(tensor.name == "part." + std::to_string(i));
      CHECK(tensor.extents[1] == 3 - i);
      const std::string part = "parts-0000" + std::to_string(3 - i) + "-of-00003.gguf: tensor";
      CHECK(file.describe(tensor).find(part) != std::string::npos);
    }
    CHECK(file.content_hash() ==
          GgufFile::open(kGoldens / "parts-00001-of-00003.gguf").content_hash());
    CHECK(file.content_hash() != GgufFile::open(kGoldens / "types.gguf").content_hash());
  }

  TEST_CASE("parts that do not belong together are refused") {
    const auto part = [](std::uint32_t number, std::uint32_t count, std::uint32_t tensors,
                         const char* name) {
      return GgufBytes()
          .add_u32("split.no", number)
          .add_u32("split.count", count)
          .add_u32("split.tensors.count", tensors)
          .add_tensor(name, {1}, GgmlType::kF32, "1234")
          .text();
    };
    const fs::path folder = fresh_folder("gguf_parts");
    const auto refusal_of = [&](const std::string& first, const std::string& second,
                                const char* name = "m-00001-of-00002.gguf") -> std::string {
      write(folder / "m-00001-of-00002.gguf", first);
      write(folder / "m-00002-of-00002.gguf", second);
      write(folder / "renamed.gguf", first);
      try {
        GgufFile::open(folder / name);
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::kBadModel);
        return error.what();
      }
      return "";
    };
    const std::string first = part(0, 2, 2, "a");
    const std::string second = part(1, 2, 2, "b");
    CHECK(refusal_of(first, second) == "");
    const struct {
      std::string message;
      const char* part;
    } kRows[] = {
        {refusal_of(first, second, "m-00002-of-00002.gguf"), "give the first one"},
        {refusal_of(first, second, "renamed.gguf"), "whose name ends in -00001-of-00002.gguf"},
        {refusal_of(first, first), "says that it is part 1 of 2, which its name does not say"},
        {refusal_of(second, second), "split.no: expected 0 in the first part"},
        {refusal_of(first, part(1, 3, 2, "b")), "says that it is part 2 of 3"},
        {refusal_of(first, part(1, 2, 2, "a")), "tensor \"a\" is in two parts"},
        {refusal_of(part(0, 2, 3, "a"), second), "split.tensors.count is 3, but the parts have 2"},
        {refusal_of(first, small_file().text()), "split.no: is missing"},
        {refusal_of(first, "x"), "m-00002-of-00002.gguf: is no GGUF file"},
    };
    for (const auto& row : kRows) {
      CAPTURE(row.message);
      CHECK(row.message.find(row.part) != std::string::npos);
    }
    fs::remove(folder / "m-00002-of-00002.gguf");
    write(folder / "m-00001-of-00002.gguf", first);
    CHECK_THROWS_WITH_AS(GgufFile::open(folder / "m-00001-of-00002.gguf"),
                         doctest::Contains("m-00002-of-00002.gguf"), Error);
  }

  TEST_CASE("mutated files are refused or lie inside the file, and never crash") {
    std::string good = read_text_file(kGoldens / "types.gguf");
    std::mt19937 rng(15);
    int num_refused = 0;
    constexpr std::size_t kHeaderBytes = 1800;  // most mutations are in the header
    for (int round = 0; round < 3000; ++round) {
      std::string file = good;
      if (round % 3 == 0) file.resize(rng() % file.size());
      const std::size_t range = std::min(file.size(), kHeaderBytes);
      for (auto flips = rng() % 3; flips-- > 0 && range > 0;) {
        const auto value = rng() % 4 == 0 ? 0xFF : rng();
        file[rng() % range] = static_cast<char>(value);
      }
      try {
        const GgufHeader header = parsed(file);
        for (const GgufTensor& tensor : header.tensors) {
          const auto* const begin = reinterpret_cast<const char*>(tensor.bytes.data());
          CHECK(begin >= file.data());
          CHECK(begin + tensor.bytes.size() <= file.data() + file.size());
        }
      } catch (const Error& error) {
        ++num_refused;
        const bool is_refusal =
            error.code() == ErrorCode::kBadModel || error.code() == ErrorCode::kUnavailable;
        CHECK(is_refusal);
      }
    }
    CHECK(num_refused > 1000);
  }
}

}  // namespace
}  // namespace caption::weights
