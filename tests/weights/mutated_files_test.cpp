// Thousands of changed GGUF files, safetensors files and quantised checkpoints: each opens or is
// refused by an Error that names the file, every tensor of those that open is read, as numbers and
// as codes, and neither takes more memory than the files imply. Under ASan and UBSan it is a test
// of every read as well.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "tests/support/counted_memory.h"
#include "tests/support/mutants.h"
#include "weights/gguf_config.h"
#include "weights/gguf_file.h"
#include "weights/gguf_source.h"
#include "weights/gguf_tokenizer.h"
#include "weights/open_source.h"
#include "weights/source.h"

namespace caption::weights {
namespace {

namespace fs = std::filesystem;

using testing::MemoryPeak;
using testing::Mutator;

// The most memory in use at once: 8 bytes per byte of the files, which numbers of f32 from codes of
// 4 bits take, and a fixed amount for what does not grow with the files: messages, paths, the
// handles of open files.
constexpr std::int64_t kBytesPerByte = 8;
constexpr std::int64_t kFixedBytes = 16 << 10;

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file.is_open());
  return {std::istreambuf_iterator<char>(file), {}};
}

// A file that is changed, or one beside it that a mutant leaves as it is.
struct MutantFile {
  std::string name;
  std::string bytes;
};

// What became of the mutants.
struct Tally {
  int mutants = 0;
  int opened = 0;
  int refused = 0;
  std::int64_t tensors = 0;         // tensors that were read
  std::int64_t codes = 0;           // matrices whose codes were read
  std::int64_t largest_excess = 0;  // memory beyond 8 bytes per byte of the files
};

// A folder with the files of one mutant, which the next one replaces.
class MutantFolder {
 public:
  explicit MutantFolder(const std::string& name)
      : path_(fs::path(CAPTION_TEST_TMP) / "mutated_files" / name) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~MutantFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  MutantFolder(const MutantFolder&) = delete;
  MutantFolder& operator=(const MutantFolder&) = delete;

  const fs::path& path() const { return path_; }
  void write(const std::vector<MutantFile>& files) {
    num_bytes_ = 0;
    for (const MutantFile& file : files) {
      fs::remove(path_ / file.name);  // ext4 writes a file that is replaced in place to the disk
      std::ofstream(path_ / file.name, std::ios::binary) << file.bytes;
      num_bytes_ += std::ssize(file.bytes);
    }
  }
  std::int64_t num_bytes() const { return num_bytes_; }

 private:
  fs::path path_;
  std::int64_t num_bytes_ = 0;
};

// Runs `work`, whose Error must name the folder or a file in it. Returns whether it had none.
template <class Work>
bool succeeds(const MutantFolder& folder, Work work) {
  try {
    work();
    return true;
  } catch (const Error& error) {
    const std::string message = error.what();
    CAPTURE(message);
    CHECK((error.code() == ErrorCode::kBadModel || error.code() == ErrorCode::kUnavailable));
    CHECK(message.find(folder.path().string()) != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
    CHECK(message.size() < folder.path().string().size() * 3 + 1000);
    CHECK(is_valid_utf8(message));
    return false;
  }
}

// Reads all bytes, so that a sanitizer sees each.
void touch(std::span<const std::byte> bytes) {
  unsigned sum = 0;
  for (const std::byte byte : bytes) sum += std::to_integer<unsigned>(byte);
  static volatile unsigned sink = 0;
  sink = sink + sum;
}

void touch(const ConstView& view) {
  const auto bytes = static_cast<std::size_t>(view.num_elements()) * dtype_size_bytes(view.dtype());
  touch(std::span(static_cast<const std::byte*>(view.raw()), bytes));
}

void touch(const QuantisedMatrix& matrix) {
  float sum = 0;
  for (std::int64_t n = 0; n < matrix.num_rows(); ++n) {
    for (std::int64_t k = 0; k < matrix.num_columns; ++k) {
      const std::int64_t column = matrix.column_of(k);
      CHECK_UNARY(column >= 0 && column < matrix.num_columns);
      sum += matrix.value(n, k);
    }
  }
  static volatile float sink = 0;
  sink = sink + sum;
}

// Reads every tensor and the codes of those that have some. An Error about one of them does not end
// the others.
void read_tensors(const MutantFolder& folder, Source& source, Tally& tally) {
  for (const std::string& name : source.names()) {
    succeeds(folder, [&] {
      const Shape shape = source.shape(name).value();
      touch(source.read(name, shape));
      source.release(name);
      ++tally.tensors;
    });
    succeeds(folder, [&] {
      if (!source.codes_of(name)) return;
      const Shape shape = source.shape(name).value();
      touch(source.read_codes(name, shape, 0, shape[0]));
      touch(source.read_codes(name, shape, shape[0] - 1, 1));
      ++tally.codes;
    });
  }
}

void check_memory(const MutantFolder& folder, const MemoryPeak& peak, Tally& tally) {
  const std::int64_t excess = peak.bytes() - kBytesPerByte * folder.num_bytes();
  tally.largest_excess = std::max(tally.largest_excess, excess);
  CAPTURE(folder.num_bytes());
  CHECK(excess <= kFixedBytes);
}

// Opens what `folder` holds and reads all of it.
template <class Open>
void check_mutant(const MutantFolder& folder, Open open, Tally& tally) {
  ++tally.mutants;
  const MemoryPeak peak;
  const bool is_open = succeeds(folder, [&] {
    const std::unique_ptr<Source> source = open();
    read_tensors(folder, *source, tally);
  });
  ++(is_open ? tally.opened : tally.refused);
  check_memory(folder, peak, tally);
}

// Both outcomes, and tensors and codes in numbers that show that mutants got that far.
void check_tally(const std::string& what, const Tally& tally, int expected_mutants) {
  MESSAGE(what << ": " << tally.mutants << " mutants, " << tally.opened << " opened, "
               << tally.refused << " refused, " << tally.tensors << " tensors and " << tally.codes
               << " matrices of codes read; at most " << tally.largest_excess
               << " bytes beyond 8 per byte");
  CHECK(tally.mutants >= expected_mutants);
  CHECK(tally.opened > expected_mutants / 50);
  CHECK(tally.refused > expected_mutants / 4);
  CHECK(tally.tensors > tally.opened);
}

std::vector<fs::path> files_below(const fs::path& folder, std::string_view suffix) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && entry.path().string().ends_with(suffix)) {
      found.push_back(entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  REQUIRE(!found.empty());
  return found;
}

const fs::path kGoldenFolder = CAPTION_SOURCE_DIR "/tests/golden";

// The values of a file's header, and what is made of them.
void read_metadata(const MutantFolder& folder, const GgufFile& file) {
  const GgufMetadata& metadata = file.metadata();
  for (const GgufValue& value : metadata.values()) {
    succeeds(folder, [&] { metadata.require_int(value.key, INT64_MIN, INT64_MAX); });
    succeeds(folder, [&] { metadata.require_double(value.key); });
    succeeds(folder, [&] { metadata.require_string(value.key); });
    succeeds(folder, [&] { metadata.get_ints(value.key); });
    succeeds(folder, [&] { metadata.get_doubles(value.key); });
    succeeds(folder, [&] { metadata.get_bools(value.key); });
    succeeds(folder, [&] {
      for (const std::string_view text : metadata.get_strings(value.key)) {
        touch(std::as_bytes(std::span(text)));
      }
    });
  }
  succeeds(folder, [&] { gguf_token_tables(metadata); });
}

// Opens model.gguf and, when there is one, mmproj.gguf.
std::unique_ptr<Source> open_gguf(const MutantFolder& folder) {
  auto text = std::make_shared<const GgufFile>(GgufFile::open(folder.path() / "model.gguf"));
  read_metadata(folder, *text);
  succeeds(folder, [&] { gguf_text_config(*text); });
  const fs::path tower_path = folder.path() / "mmproj.gguf";
  if (!fs::exists(tower_path)) return std::make_unique<GgufSource>(text);
  auto tower = std::make_shared<const GgufFile>(GgufFile::open(tower_path));
  read_metadata(folder, *tower);
  succeeds(folder, [&] { gguf_captioner_config(*text, *tower); });
  succeeds(folder, [&] { gguf_preprocessor_config(*tower); });
  return std::make_unique<GgufSource>(tower);
}

TEST_SUITE("weights/mutated_files") {
  TEST_CASE("GGUF files of language models") {
    std::vector<std::string> goldens;
    for (const char* const folder : {"gguf", "gguf_models", "gguf_tokenizers"}) {
      for (const fs::path& path : files_below(kGoldenFolder / folder, ".gguf")) {
        if (path.filename().string().starts_with("mmproj")) continue;
        goldens.push_back(read_file(path));
      }
    }
    constexpr int kMutants = 1800;
    Mutator mutator(1);
    Tally tally;
    MutantFolder folder("gguf");
    for (int i = 0; i < kMutants; ++i) {
      CAPTURE(i);
      const std::string& good = goldens[static_cast<std::size_t>(i) % goldens.size()];
      folder.write({{"model.gguf", mutator.gguf(good, goldens[mutator.below(goldens.size())])}});
      check_mutant(
          folder, [&] { return open_gguf(folder); }, tally);
    }
    check_tally("GGUF models", tally, kMutants);
    CHECK(tally.codes > 0);
  }

  TEST_CASE("GGUF files of towers") {
    std::vector<std::array<std::string, 2>> goldens;
    for (const fs::path& path : files_below(kGoldenFolder / "gguf_models", "mmproj.gguf")) {
      goldens.push_back({read_file(path.parent_path() / "text.gguf"), read_file(path)});
    }
    constexpr int kMutants = 900;
    Mutator mutator(2);
    Tally tally;
    MutantFolder folder("gguf_towers");
    for (int i = 0; i < kMutants; ++i) {
      CAPTURE(i);
      const auto& [text, tower] = goldens[static_cast<std::size_t>(i) % goldens.size()];
      const std::string mutant = mutator.gguf(tower, text);
      folder.write({{"model.gguf", text}, {"mmproj.gguf", mutant}});
      check_mutant(
          folder, [&] { return open_gguf(folder); }, tally);
    }
    check_tally("GGUF towers", tally, kMutants);
  }

  TEST_CASE("GGUF files in parts") {
    std::vector<MutantFile> parts;
    for (const fs::path& path : files_below(kGoldenFolder / "gguf", "-of-00003.gguf")) {
      parts.push_back({path.filename().string(), read_file(path)});
    }
    constexpr int kMutants = 300;
    Mutator mutator(3);
    Tally tally;
    MutantFolder folder("gguf_parts");
    for (int i = 0; i < kMutants; ++i) {
      CAPTURE(i);
      std::vector<MutantFile> files = parts;
      std::string& changed = files[mutator.below(files.size())].bytes;
      changed = mutator.gguf(changed, parts[mutator.below(parts.size())].bytes);
      folder.write(files);
      ++tally.mutants;
      const MemoryPeak peak;
      const bool is_open = succeeds(folder, [&] {
        const GgufFile file = GgufFile::open(folder.path() / parts.front().name);
        read_metadata(folder, file);
        for (const GgufTensor& tensor : file.tensors()) {
          touch(tensor.bytes);
          ++tally.tensors;
        }
      });
      ++(is_open ? tally.opened : tally.refused);
      check_memory(folder, peak, tally);
    }
    check_tally("GGUF parts", tally, kMutants);
  }

  TEST_CASE("safetensors files") {
    std::vector<std::string> goldens;
    for (const char* const folder : {"weights/single", "quantised", "compressed_tensors"}) {
      for (const fs::path& path : files_below(kGoldenFolder / folder, ".safetensors")) {
        goldens.push_back(read_file(path));
      }
    }
    constexpr int kMutants = 1200;
    Mutator mutator(4);
    Tally tally;
    MutantFolder folder("safetensors");
    for (int i = 0; i < kMutants; ++i) {
      CAPTURE(i);
      const std::string& good = goldens[static_cast<std::size_t>(i) % goldens.size()];
      const std::string& other = goldens[mutator.below(goldens.size())];
      folder.write({{"model.safetensors", mutator.safetensors(good, other)}});
      check_mutant(
          folder, [&] { return open_source(folder.path()); }, tally);
    }
    check_tally("safetensors", tally, kMutants);
  }

  TEST_CASE("sharded checkpoints") {
    std::vector<MutantFile> good;
    for (const auto& entry : fs::directory_iterator(kGoldenFolder / "weights/sharded")) {
      good.push_back({entry.path().filename().string(), read_file(entry.path())});
    }
    std::sort(good.begin(), good.end(),
              [](const MutantFile& a, const MutantFile& b) { return a.name < b.name; });
    constexpr int kMutants = 300;
    Mutator mutator(5);
    Tally tally;
    MutantFolder folder("sharded");
    for (int i = 0; i < kMutants; ++i) {
      CAPTURE(i);
      std::vector<MutantFile> files = good;
      MutantFile& changed = files[mutator.below(files.size())];
      const std::string& other = good[mutator.below(good.size())].bytes;
      const bool is_index = changed.name.ends_with(".json");
      changed.bytes =
          is_index ? mutator.json(changed.bytes, other) : mutator.safetensors(changed.bytes, other);
      folder.write(files);
      check_mutant(
          folder, [&] { return open_source(folder.path()); }, tally);
    }
    check_tally("sharded checkpoints", tally, kMutants);
  }

  TEST_CASE("quantised checkpoints") {
    struct Golden {
      std::string config, tensors;
    };
    std::vector<Golden> goldens;
    for (const char* const group : {"quantised", "packed", "compressed_tensors"}) {
      for (const fs::path& path : files_below(kGoldenFolder / group, "config.json")) {
        goldens.push_back({read_file(path), read_file(path.parent_path() / "model.safetensors")});
      }
    }
    constexpr int kMutants = 2000;
    Mutator mutator(6);
    Tally tally;
    MutantFolder folder("quantised");
    for (int i = 0; i < kMutants; ++i) {
      CAPTURE(i);
      Golden golden = goldens[static_cast<std::size_t>(i) % goldens.size()];
      const Golden& other = goldens[mutator.below(goldens.size())];
      const std::size_t changed = mutator.below(4);  // the configuration, the tensors, or both
      if (changed != 1) golden.config = mutator.json(golden.config, other.config);
      if (changed == 1 || changed == 2) {
        golden.tensors = mutator.safetensors(golden.tensors, other.tensors);
      }
      folder.write({{"config.json", golden.config}, {"model.safetensors", golden.tensors}});
      check_mutant(
          folder, [&] { return open_source(folder.path()); }, tally);
    }
    check_tally("quantised checkpoints", tally, kMutants);
    CHECK(tally.codes > 0);
  }
}

}  // namespace
}  // namespace caption::weights
