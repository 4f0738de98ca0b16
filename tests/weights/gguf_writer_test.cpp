// Files of GgufWriter are read back as they were meant, and are there whole or not at all.
#include "weights/gguf_writer.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/weights/gguf_goldens.h"
#include "weights/gguf_file.h"

namespace caption::weights {
namespace {

fs::path folder_of_test() {
  const fs::path folder = fs::path(CAPTION_TEST_TMP) / "gguf_writer";
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

std::vector<std::string> files_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

std::vector<std::byte> counting(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7);
  return bytes;
}

// Limits the size of files that this process writes, as a full disk does.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(std::uint64_t bytes) : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &old_);
    rlimit limit = old_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*old_handler_)(int);
  rlimit old_{};
};

TEST_SUITE("weights/gguf_writer") {
  TEST_CASE("keys of every type and tensors of every rank are read back") {
    const fs::path path = folder_of_test() / "a.gguf";
    GgufFields fields;
    fields.add_text("text", "한국어 \xF0\x9F\x98\x80").add_text("empty", "");
    fields.add("u8", std::uint8_t{200}).add("i8", std::int8_t{-100});
    fields.add("u16", std::uint16_t{60000}).add("i16", std::int16_t{-30000});
    fields.add("u32", std::uint32_t{4000000000u}).add("i32", std::int32_t{-2000000000});
    fields.add("u64", std::uint64_t{1} << 62).add("i64", std::numeric_limits<std::int64_t>::min());
    fields.add("f32", 0.1F).add("f64", 0.1).add("yes", true).add("no", false);
    fields.add_list("ints", std::vector<std::int32_t>{1, -2, 3});
    fields.add_list("floats", std::vector<float>{0.5F, -0.25F});
    fields.add_list("bools", std::vector<bool>{true, false, true});
    fields.add_texts("texts", {"a", "", "bc"});
    GgufFields more;
    fields.append(more.add("last", std::uint32_t{7}));
    const std::vector<GgufTensorHeader> tensors = {{"one", GgmlType::kF32, {3}},
                                                   {"two", GgmlType::kQ8_0, {2, 64}},
                                                   {"four", GgmlType::kF16, {2, 3, 1, 5}}};
    GgufWriter writer(path, fields, tensors);
    for (const GgufTensorHeader& tensor : tensors) {
      const std::vector<std::byte> bytes = counting(tensor.size_bytes());
      writer.write(std::span(bytes).first(5));
      writer.write(std::span(bytes).subspan(5));
    }
    CHECK(!fs::exists(path));
    writer.finish();
    CHECK(files_in(path.parent_path()) == std::vector<std::string>{"a.gguf"});
    const GgufFile file = GgufFile::open(path);
    const GgufMetadata& found = file.metadata();
    CHECK(file.version() == 3);
    CHECK(found.values().size() == 19);
    CHECK(found.require_string("text") == "한국어 \xF0\x9F\x98\x80");
    CHECK(found.require_string("empty").empty());
    constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    const auto number = [&](const char* key) { return found.require_int(key, kLeast, kMost); };
    CHECK(number("u8") == 200);
    CHECK(number("i8") == -100);
    CHECK(number("u16") == 60000);
    CHECK(number("i16") == -30000);
    CHECK(number("u32") == 4000000000);
    CHECK(number("i32") == -2000000000);
    CHECK(number("u64") == std::int64_t{1} << 62);
    CHECK(number("i64") == kLeast);
    CHECK(found.require_double("f32") == double{0.1F});
    CHECK(found.require_double("f64") == 0.1);
    CHECK(found.get_bool("yes", false));
    CHECK(!found.get_bool("no", true));
    CHECK(found.get_ints("ints") == std::vector<std::int64_t>{1, -2, 3});
    CHECK(found.get_doubles("floats") == std::vector<double>{0.5, -0.25});
    CHECK(found.get_bools("bools") == std::vector<bool>{true, false, true});
    CHECK(found.get_strings("texts") == std::vector<std::string_view>{"a", "", "bc"});
    CHECK(number("last") == 7);
    for (const GgufTensorHeader& tensor : tensors) {
      const GgufTensor* const read = file.find(tensor.name);
      REQUIRE(read != nullptr);
      CHECK(read->type->type == tensor.type);
      CHECK(std::vector<std::int64_t>(read->shape().begin(), read->shape().end()) ==
            tensor.extents);
      const std::vector<std::byte> bytes = counting(tensor.size_bytes());
      CHECK(std::vector<std::byte>(read->bytes.begin(), read->bytes.end()) == bytes);
    }
  }

  TEST_CASE("a file that is not finished leaves nothing, and one of before stays") {
    const fs::path folder = folder_of_test();
    const fs::path path = folder / "a.gguf";
    std::ofstream(path) << "of before";
    std::ofstream(folder / "a.gguf.part") << "of a process that was killed";
    {
      GgufWriter writer(path, {}, {{"one", GgmlType::kF32, {8}}});
      const std::vector<std::byte> bytes = counting(16);
      writer.write(bytes);
      CHECK_THROWS_AS(writer.finish(), Error);
      const std::vector<std::byte> too_many = counting(17);
      CHECK_THROWS_AS(writer.write(too_many), Error);
    }
    CHECK(files_in(folder) == std::vector<std::string>{"a.gguf"});
    CHECK(fs::file_size(path) == 9);
  }

  TEST_CASE("folders that are missing and disks that are full are named with the tensor") {
    const fs::path folder = folder_of_test();
    const std::string missing =
        refusal(ErrorCode::kIo, [&] { GgufWriter(folder / "none" / "a.gguf", {}, {}); });
    check_contains(missing, "none/a.gguf.part: cannot create the file: ");
    const std::string full = refusal(ErrorCode::kIo, [&] {
      GgufWriter writer(folder / "a.gguf", {}, {{"one", GgmlType::kF32, {1 << 19}}});
      const FileSizeLimit limit(1 << 16);
      const std::vector<std::byte> bytes = counting(std::size_t{4} << 19);
      writer.write(bytes);
    });
    check_contains(full, "a.gguf: tensor \"one\": cannot write: ");
    CHECK(files_in(folder).empty());
  }
}

}  // namespace
}  // namespace caption::weights
