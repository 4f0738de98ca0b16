// Checkpoints on disk, single and sharded; goldens by scripts/make_goldens_weights.py.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "weights/checkpoint.h"

namespace caption::weights {
namespace {

namespace fs = std::filesystem;

const fs::path kGoldens = CAPTION_SOURCE_DIR "/tests/golden/weights";

fs::path fresh_folder(const std::string& name) {
  const fs::path folder = fs::path(CAPTION_TEST_TMP) / name;
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

void write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

template <class T>
void append_values(const ConstView& view, std::vector<double>* values) {
  for (std::int64_t i = 0; i < view.num_elements(); ++i) {
    if constexpr (std::is_integral_v<T>) {
      values->push_back(static_cast<double>(view.as<T>()[i]));
    } else {
      values->push_back(static_cast<double>(to_float(view.as<T>()[i])));
    }
  }
}

std::vector<double> values_of(const ConstView& view) {
  std::vector<double> values;
  switch (view.dtype()) {
    case DType::kF32: append_values<float>(view, &values); break;
    case DType::kBF16: append_values<BF16>(view, &values); break;
    case DType::kF16: append_values<F16>(view, &values); break;
    case DType::kI8: append_values<std::int8_t>(view, &values); break;
    case DType::kU8: append_values<std::uint8_t>(view, &values); break;
    case DType::kI32: append_values<std::int32_t>(view, &values); break;
    case DType::kI64: append_values<std::int64_t>(view, &values); break;
  }
  return values;
}

TEST_SUITE("weights/checkpoint") {
  TEST_CASE("every value is the one the reference wrote, single or sharded") {
    const auto rows = JsonObject::open(kGoldens / "expected.json", ErrorCode::kBadReference)
                          .get_objects("tensors");
    for (const fs::path& path :
         {kGoldens / "single", kGoldens / "single/model.safetensors", kGoldens / "sharded"}) {
      CAPTURE(path.string());
      const Checkpoint checkpoint = Checkpoint::open(path);
      CHECK(checkpoint.path() == path);
      std::vector<std::string> names;
      std::int64_t num_parameters = 0;
      for (const JsonObject& row : rows) {
        const std::string name = row.require_string("name");
        CAPTURE(name);
        names.push_back(name);
        const Shape shape(row.get_ints("shape"));
        num_parameters += shape.num_elements();
        if (row.require_string("dtype") == "float64") {
          CHECK_THROWS_WITH_AS(checkpoint.require(name, shape),
                               doctest::Contains("has dtype F64, which this build does not read"),
                               Error);
          CHECK_THROWS_AS(checkpoint.find(name), Error);
          continue;
        }
        const ConstView view = checkpoint.require(name, shape);
        CHECK(view.is_dense());
        CHECK(values_of(view) == row.get_doubles("values"));
        CHECK(checkpoint.find(name)->raw() == view.raw());
      }
      CHECK(checkpoint.names() == names);
      CHECK(checkpoint.num_parameters() == num_parameters);
      CHECK(checkpoint.size_bytes() ==
            3 * 5 * 4 + 12 * 2 + 7 * 2 + 24 * 4 + 4 + 3 + 5 + 16 + 24 + 16);
    }
  }

  TEST_CASE("a tensor that is not there or has another shape is told") {
    const Checkpoint checkpoint = Checkpoint::open(kGoldens / "single");
    CHECK_FALSE(checkpoint.find("nothing").has_value());
    CHECK_THROWS_WITH_AS(
        checkpoint.require("nothing", {2}),
        doctest::Contains("tensor \"nothing\" [2] is missing among its 11 tensors"), Error);
    CHECK_THROWS_WITH_AS(
        checkpoint.require("model.embed.weight", {5, 3}),
        doctest::Contains("\"model.embed.weight\" has shape [3, 5]; expected [5, 3]"), Error);
  }

  TEST_CASE("the hash is of the weights, not of their files") {
    const Checkpoint single = Checkpoint::open(kGoldens / "single");
    const Hash128 hash = single.content_hash();
    CHECK(Checkpoint::open(kGoldens / "sharded").content_hash() == hash);
    CHECK(single.content_hash() == hash);

    const fs::path folder = fresh_folder("weights_hash");
    std::string text = read_text_file(kGoldens / "single/model.safetensors");
    text.back() = static_cast<char>(text.back() ^ 1);
    write(folder / "model.safetensors", text);
    CHECK(Checkpoint::open(folder).content_hash() != hash);
  }

  TEST_CASE("threads may ask for the hash at once") {
    const Checkpoint checkpoint = Checkpoint::open(kGoldens / "single");
    std::vector<Hash128> hashes(4);
    std::vector<std::thread> threads;
    for (Hash128& hash : hashes) {
      threads.emplace_back([&] { hash = checkpoint.content_hash(); });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(std::count(hashes.begin(), hashes.end(), hashes[0]) == 4);
  }

  TEST_CASE("a view stays where it is when the checkpoint moves") {
    Checkpoint checkpoint = Checkpoint::open(kGoldens / "single");
    const ConstView view = *checkpoint.find("codes.u8");
    const std::vector<double> values = values_of(view);
    const Checkpoint moved = std::move(checkpoint);
    CHECK(values_of(view) == values);
    CHECK(moved.find("codes.u8")->raw() == view.raw());
  }

  TEST_CASE("folders without usable weights are refused") {
    const fs::path folder = fresh_folder("weights_bad");
    const auto message_of = [&](const fs::path& path, ErrorCode code) {
      try {
        Checkpoint::open(path);
        return std::string("opened");
      } catch (const Error& error) {
        CHECK(error.code() == code);
        return std::string(error.what());
      }
    };
    CHECK(message_of(folder / "missing", ErrorCode::kBadModel).find("missing: No such file") !=
          std::string::npos);
    CHECK(message_of(folder, ErrorCode::kBadModel).find("holds neither model.safetensors nor") !=
          std::string::npos);
    write(folder / "pytorch_model.bin", "x");
    CHECK(message_of(folder, ErrorCode::kUnavailable).find("reads safetensors only") !=
          std::string::npos);
    const fs::path index = folder / "model.safetensors.index.json";
    write(index, R"({"weight_map": {"a": "../x"}})");
    CHECK(message_of(folder, ErrorCode::kBadModel).find("file name of this folder") !=
          std::string::npos);
    write(index, R"({"weight_map": {"a": "missing.safetensors"}})");
    CHECK(message_of(folder, ErrorCode::kBadModel).find("missing.safetensors: No such file") !=
          std::string::npos);
    fs::copy(kGoldens / "single/model.safetensors", folder / "one.safetensors");
    write(index, R"({"weight_map": {"scale": "one.safetensors", "nope": "one.safetensors"}})");
    CHECK(message_of(folder, ErrorCode::kBadModel)
              .find("\"nope\" is said to be in one.safetensors, which does not have it") !=
          std::string::npos);
    write(index, R"({"weight_map": {"scale": "one.safetensors"}})");
    CHECK(Checkpoint::open(folder).names() == std::vector<std::string>{"scale"});
    write(folder / "model.safetensors", "");
    CHECK(message_of(folder, ErrorCode::kBadModel).find("is no safetensors file: 0 bytes") !=
          std::string::npos);
  }

  TEST_CASE("a tensor of more axes than a shape has is listed only") {
    const fs::path folder = fresh_folder("weights_rank");
    const std::string header =
        R"({"a": {"dtype": "I8", "shape": [1, 1, 1, 1, 1, 2], "data_offsets": [0, 2]}})";
    std::string file(8, '\0');
    file[0] = static_cast<char>(header.size());
    write(folder / "model.safetensors", file.append(header).append("xy"));
    const Checkpoint checkpoint = Checkpoint::open(folder);
    CHECK(checkpoint.names() == std::vector<std::string>{"a"});
    CHECK_THROWS_WITH_AS(checkpoint.find("a"), doctest::Contains("has 6 axes; at most 5"), Error);
  }
}

}  // namespace
}  // namespace caption::weights
