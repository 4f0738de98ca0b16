// Checkpoints on disk, single and sharded; the goldens are made by scripts/make_goldens_weights.py.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
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

// Waits longer than one tick of the clock of file times, which is at most 10 ms.
void wait_for_clock() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

// Overwrites the content of the file, which keeps its inode.
void rewrite_in_place(const fs::path& path, const std::string& text) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file << text;
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

// Reads a byte of the tensor in the mapping.
void touch(const Checkpoint& checkpoint, const std::string& name) {
  static_cast<void>(*static_cast<const volatile std::byte*>(checkpoint.find(name)->raw()));
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
          CHECK_THROWS_WITH_AS(
              checkpoint.require(name, shape),
              doctest::Contains("has dtype F64, which this build does not read; save "
                                "the model again in bfloat16"),
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
      std::int64_t num_of_dtypes = 0;
      for (const StoredDType& dtype : checkpoint.dtypes()) num_of_dtypes += dtype.num_parameters;
      CHECK(num_of_dtypes == num_parameters);
      CHECK(std::ssize(checkpoint.files()) >= 1);
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
        doctest::Contains("tensor \"nothing\" [2] is missing among its 11 tensors; weights and "
                          "configuration are of different models, or not complete: download"),
        Error);
    CHECK_THROWS_WITH_AS(
        checkpoint.require("model.embed.weight", {5, 3}),
        doctest::Contains("\"model.embed.weight\" has shape [3, 5]; expected [5, 3]; weights "
                          "and configuration are of different models"),
        Error);
  }

  TEST_CASE("the hash follows the bytes of every file") {
    const Checkpoint single = Checkpoint::open(kGoldens / "single");
    const Sha256 hash = single.content_hash();
    CHECK(single.content_hash() == hash);
    CHECK(Checkpoint::open(kGoldens / "single").content_hash() == hash);

    const fs::path folder = fresh_folder("weights_hash");
    std::string text = read_text_file(kGoldens / "single/model.safetensors");
    write(folder / "any_name.safetensors", text);
    CHECK(Checkpoint::open(folder / "any_name.safetensors").content_hash() == hash);
    text.back() = static_cast<char>(text.back() ^ 1);
    write(folder / "model.safetensors", text);
    CHECK(Checkpoint::open(folder).content_hash() != hash);

    const Sha256 sharded = Checkpoint::open(kGoldens / "sharded").content_hash();
    CHECK(sharded != hash);
    const fs::path shards = fresh_folder("weights_hash_shards");
    fs::copy(kGoldens / "sharded", shards);
    CHECK(Checkpoint::open(shards).content_hash() == sharded);
    std::ofstream(shards / "model.safetensors.index.json", std::ios::app) << "\n";
    CHECK(Checkpoint::open(shards).content_hash() != sharded);
  }

  TEST_CASE("digests are kept for the next start") {
    const DigestCache digests(fresh_folder("weights_digests"));
    const Sha256 hash = Checkpoint::open(kGoldens / "sharded").content_hash(digests);
    CHECK(Checkpoint::open(kGoldens / "sharded").content_hash() == hash);
    const OpenFile shard(kGoldens / "sharded/model-00001-of-00002.safetensors");
    CHECK(digests.find(shard.stamp()) == shard.sha256());
    digests.keep(shard.stamp(), Sha256{});
    CHECK(Checkpoint::open(kGoldens / "sharded").content_hash(digests) != hash);
  }

  TEST_CASE("threads may ask for the hash at once") {
    const Checkpoint checkpoint = Checkpoint::open(kGoldens / "single");
    std::vector<Sha256> hashes(4);
    std::vector<std::thread> threads;
    for (Sha256& hash : hashes) {
      threads.emplace_back([&] { hash = checkpoint.content_hash(); });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(std::count(hashes.begin(), hashes.end(), hashes[0]) == 4);
  }

  TEST_CASE("a file that is written while it is open is named") {
    const fs::path folder = fresh_folder("weights_changed");
    const fs::path path = folder / "model.safetensors";
    const std::string text = read_text_file(kGoldens / "single/model.safetensors");
    write(path, text);
    const Checkpoint checkpoint = Checkpoint::open(folder);
    CHECK_FALSE(checkpoint.find_changed_file().has_value());
    wait_for_clock();
    SUBCASE("grown") {
      std::ofstream(path, std::ios::app) << "x";
      CHECK(checkpoint.find_changed_file() ==
            path.string() + " changed while it is in use; run again with files that nobody writes");
      CHECK_THROWS_AS(checkpoint.content_hash(), Error);
    }
    SUBCASE("cut short, and read") {
      fs::resize_file(path, 0);
      touch(checkpoint, "codes.u8");
      CHECK(checkpoint.find_changed_file().value().find("was cut short") != std::string::npos);
      write(path, text);  // pages already lost stay lost
      CHECK(checkpoint.find_changed_file().has_value());
    }
    SUBCASE("written with size and time put back") {
      checkpoint.content_hash();
      const auto time = fs::last_write_time(path);
      std::string other = text;
      other.back() = static_cast<char>(other.back() ^ 1);
      rewrite_in_place(path, other);
      fs::last_write_time(path, time);
      CHECK(checkpoint.find_changed_file().has_value());
      rewrite_in_place(path, text);
      fs::last_write_time(path, time);
      // The other content may have been read in between.
      CHECK(checkpoint.find_changed_file().has_value());
    }
    SUBCASE("renamed, linked and given another mode, it is the same") {
      checkpoint.content_hash();
      fs::rename(path, folder / "other");
      fs::create_hard_link(folder / "other", folder / "third");
      fs::permissions(folder / "third", fs::perms::owner_read);
      write(path, "another file under the name");
      CHECK_FALSE(checkpoint.find_changed_file().has_value());
      CHECK_FALSE(checkpoint.find_changed_file().has_value());
    }
    SUBCASE("renamed before there is a digest, it may have been written") {
      fs::rename(path, folder / "other");
      CHECK(checkpoint.find_changed_file().has_value());
    }
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
    CHECK(message_of(folder, ErrorCode::kBadModel)
              .find("holds neither model.safetensors nor "
                    "model.safetensors.index.json; copy or download") != std::string::npos);
    write(folder / "pytorch_model.bin", "x");
    CHECK(message_of(folder, ErrorCode::kUnavailable).find("reads safetensors only") !=
          std::string::npos);
    const fs::path index = folder / "model.safetensors.index.json";
    write(index, R"({"weight_map": {"a": "../x"}})");
    CHECK(message_of(folder, ErrorCode::kBadModel).find("file name of this folder") !=
          std::string::npos);
    write(index, R"({"weight_map": {"a": "missing.safetensors"}})");
    CHECK(message_of(folder, ErrorCode::kBadModel)
              .find("index.json: names missing.safetensors, which is not there; copy or download "
                    "that file") != std::string::npos);
    fs::copy(kGoldens / "single/model.safetensors", folder / "one.safetensors");
    write(index, R"({"weight_map": {"scale": "one.safetensors", "nope": "one.safetensors"}})");
    CHECK(message_of(folder, ErrorCode::kBadModel)
              .find("\"nope\" is said to be in one.safetensors, which does not have it; copy or "
                    "download both files again") != std::string::npos);
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
