#include "weights/safetensors_writer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/weights/quantised_files.h"
#include "weights/checkpoint.h"

namespace caption::weights {
namespace {

namespace fs = std::filesystem;
using testing::read_whole_file;

fs::path new_folder() {
  const fs::path folder = fs::path(CAPTION_TEST_TMP) / "safetensors_writer";
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

// Bytes that differ from tensor to tensor.
std::vector<std::byte> some_bytes(std::int64_t count, int seed) {
  std::vector<std::byte> bytes;
  for (std::int64_t i = 0; i < count; ++i) {
    bytes.push_back(static_cast<std::byte>((i * 7 + seed * 31) % 251));
  }
  return bytes;
}

std::vector<PlannedTensor> some_tensors() {
  return {plan_tensor("b.codes", "U8", {3, 5}),   plan_tensor("a.scales", "BF16", {7}),
          plan_tensor("c.shape", "I64", {2}),     plan_tensor("d.absmax", "F32", {3}),
          plan_tensor("a.format", "U8", {}),      plan_tensor("e.nothing", "F32", {0, 4}),
          plan_tensor("a.numbers", "F32", {1, 2})};
}

}  // namespace

TEST_SUITE_BEGIN("weights/safetensors_writer");

TEST_CASE("a file reads back as it was planned, written in any order") {
  const fs::path path = new_folder() / "model.safetensors";
  const std::vector<PlannedTensor> tensors = some_tensors();
  {
    SafetensorsWriter writer(path, tensors);
    for (std::size_t i = tensors.size(); i-- > 0;) {
      writer.write(tensors[i].name, some_bytes(tensors[i].size_bytes, static_cast<int>(i)));
      CHECK_FALSE(fs::exists(path));
    }
    writer.finish();
  }
  CHECK_FALSE(fs::exists(partial_path(path)));
  const Checkpoint file = Checkpoint::open(path);
  CHECK(file.names().size() == tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    CAPTURE(tensors[i].name);
    const FileTensor* const stored = file.stored(tensors[i].name);
    REQUIRE(stored != nullptr);
    CHECK(stored->dtype_name == tensors[i].dtype);
    CHECK(stored->extents == tensors[i].extents);
    const auto expected = some_bytes(tensors[i].size_bytes, static_cast<int>(i));
    CHECK(std::equal(stored->bytes.begin(), stored->bytes.end(), expected.begin(), expected.end()));
  }
}

TEST_CASE("the header is that of the reference: larger elements first, then by name") {
  std::vector<PlannedTensor> tensors = {plan_tensor("b", "U8", {3}), plan_tensor("a", "BF16", {2}),
                                        plan_tensor("z", "F32", {1, 1})};
  const std::string header = safetensors_header(tensors);
  const std::string json =
      R"({"__metadata__":{"format":"pt"},"z":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},)"
      R"("a":{"dtype":"BF16","shape":[2],"data_offsets":[4,8]},)"
      R"("b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}})";
  REQUIRE(header.size() % 8 == 0);
  CHECK(header.substr(8, json.size()) == json);
  CHECK(header.find_first_not_of(' ', 8 + json.size()) == std::string::npos);
  const std::size_t length = header.size() - 8;
  CHECK(static_cast<unsigned char>(header[0]) == (length & 255u));
  CHECK(static_cast<unsigned char>(header[1]) == (length >> 8));
}

TEST_CASE("a tensor of another file is copied, of any dtype") {
  const fs::path folder = new_folder();
  {
    SafetensorsWriter writer(folder / "one.safetensors",
                             {plan_tensor("x", "F8_E4M3", {40}), plan_tensor("y", "F64", {3})});
    writer.write("x", some_bytes(40, 1));
    writer.write("y", some_bytes(24, 2));
    writer.finish();
  }
  const Checkpoint one = Checkpoint::open(folder / "one.safetensors");
  {
    SafetensorsWriter writer(folder / "two.safetensors",
                             {plan_copy(one, "x"), plan_copy(one, "y")});
    writer.copy(one, "y");
    writer.copy(one, "x");
    writer.finish();
  }
  CHECK(read_whole_file(folder / "one.safetensors") == read_whole_file(folder / "two.safetensors"));
}

TEST_CASE("an unfinished file leaves nothing, and a finished one is replaced whole") {
  const fs::path path = new_folder() / "model.safetensors";
  std::ofstream(path) << "older";
  {
    SafetensorsWriter writer(path, {plan_tensor("x", "U8", {4})});
    CHECK(fs::exists(partial_path(path)));
    CHECK_THROWS_WITH_AS(writer.finish(), doctest::Contains("tensor x was not written"), Error);
  }
  CHECK_FALSE(fs::exists(partial_path(path)));
  CHECK(read_whole_file(path) == "older");
  SafetensorsWriter writer(path, {plan_tensor("x", "U8", {4})});
  writer.write("x", some_bytes(4, 1));
  writer.finish();
  CHECK(Checkpoint::open(path).names() == std::vector<std::string>{"x"});
}

TEST_CASE("what was not planned is refused") {
  const fs::path path = new_folder() / "model.safetensors";
  SafetensorsWriter writer(path, {plan_tensor("x", "U8", {4})});
  CHECK_THROWS_AS(writer.write("y", some_bytes(4, 1)), Error);
  CHECK_THROWS_AS(writer.write("x", some_bytes(5, 1)), Error);
  writer.write("x", some_bytes(4, 1));
  CHECK_THROWS_AS(writer.write("x", some_bytes(4, 1)), Error);
  CHECK_THROWS_WITH_AS(SafetensorsWriter(new_folder() / "missing" / "x.safetensors", {}),
                       doctest::Contains("cannot create the file"), Error);
}

TEST_SUITE_END();

}  // namespace caption::weights
