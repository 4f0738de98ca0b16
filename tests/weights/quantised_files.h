// tests/weights/quantised_files.h: goldens of quantised checkpoints, which a test may change before
// they are opened.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "weights/checkpoint.h"
#include "weights/internal/safetensors.h"
#include "weights/open_source.h"

namespace caption::testing {

inline constexpr const char* kCodedWeight = "a.b.weight";

// tests/golden/<group>/<name>
inline std::filesystem::path quantised_golden(const std::string& group, const std::string& name) {
  return std::filesystem::path(CAPTION_SOURCE_DIR) / "tests/golden" / group / name;
}

// The numbers of a golden as its library gives them.
class ExpectedWeights {
 public:
  explicit ExpectedWeights(const std::filesystem::path& golden)
      : file_(weights::Checkpoint::open(golden / "expected.safetensors")) {}
  ConstView weight(const char* name = kCodedWeight) const { return file_.find(name).value(); }

 private:
  weights::Checkpoint file_;
};

inline std::int64_t count_unequal_bits(ConstView a, ConstView b) {
  REQUIRE(a.shape() == b.shape());
  REQUIRE(a.dtype() == b.dtype());
  const std::size_t bytes = dtype_size_bytes(a.dtype());
  std::int64_t unequal = 0;
  for (std::int64_t i = 0; i < a.num_elements(); ++i) {
    const std::size_t at = static_cast<std::size_t>(i) * bytes;
    const bool is_equal = std::memcmp(static_cast<const std::byte*>(a.raw()) + at,
                                      static_cast<const std::byte*>(b.raw()) + at, bytes) == 0;
    if (!is_equal) ++unequal;
  }
  return unequal;
}

inline std::string read_whole_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The files of a golden.
struct QuantisedFiles {
  explicit QuantisedFiles(const std::filesystem::path& golden)
      : config(read_whole_file(golden / "config.json")),
        tensors(read_whole_file(golden / "model.safetensors")) {}

  static void replace(std::string& in, const std::string& from, const std::string& to) {
    const std::size_t at = in.find(from);
    REQUIRE(at != std::string::npos);
    in.replace(at, from.size(), to);
  }
  void replace_config(const std::string& from, const std::string& to) { replace(config, from, to); }
  // Changes the header, whose length must stay.
  void replace_header(const std::string& from, const std::string& to) {
    REQUIRE(from.size() == to.size());
    replace(tensors, from, to);
  }
  // The bytes of a tensor; the header names its place.
  std::span<std::uint8_t> bytes_of(const std::string& tensor) {
    auto* const begin = reinterpret_cast<std::uint8_t*>(tensors.data());
    const std::span<const std::byte> file = std::as_bytes(std::span(tensors));
    for (const weights::FileTensor& found : weights::parse_safetensors(file, "test")) {
      if (found.name != tensor) continue;
      return {begin + (found.bytes.data() - file.data()), found.bytes.size()};
    }
    FAIL("no tensor " << tensor);
    return {};
  }

  std::unique_ptr<weights::Source> open() const {
    const std::filesystem::path folder =
        std::filesystem::path(CAPTION_TEST_TMP) / "quantised_source";
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "config.json", std::ios::binary) << config;
    std::ofstream(folder / "model.safetensors", std::ios::binary) << tensors;
    return weights::open_source(folder);
  }

  std::string config;
  std::string tensors;
};

// Opens the files and reads the weight in both ways; returns the message of the error, or nothing.
inline std::string error_of_files(const QuantisedFiles& files, const Shape& shape, ErrorCode code) {
  try {
    const auto source = files.open();
    source->read(kCodedWeight, shape);
    if (source->codes_of(kCodedWeight)) source->read_codes(kCodedWeight, shape, 0, shape[0]);
  } catch (const Error& error) {
    CHECK(error_code_name(error.code()) == error_code_name(code));
    return error.what();
  }
  return {};
}

inline bool contains_text(const std::string& text, const std::string& part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) MESSAGE("\"" << text << "\" does not contain \"" << part << "\"");
  return found;
}

// Changes bytes of the configuration and of the header at random: an Error, or a weight that can be
// read. Digits are the most dangerous bytes, because they are sizes.
inline void check_mutated_files(const std::string& group, const std::vector<std::string>& names,
                                std::uint64_t seed) {
  std::uint64_t state = seed;
  const auto draw = [&](std::size_t limit) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::size_t>(state >> 33) % limit;
  };
  int num_opened = 0;
  int num_refused = 0;
  for (const std::string& name : names) {
    const std::filesystem::path golden = quantised_golden(group, name);
    const QuantisedFiles good(golden);
    const Shape shape = ExpectedWeights(golden).weight().shape();
    for (int i = 0; i < 40; ++i) {
      QuantisedFiles files = good;
      std::string& changed = i % 2 == 0 ? files.config : files.tensors;
      const std::size_t length = i % 2 == 0 ? changed.size() : 8 + 360;
      for (std::size_t times = draw(3) + 1; times > 0; --times) {
        changed[draw(length)] =
            draw(2) == 0 ? static_cast<char>('0' + draw(10)) : static_cast<char>(draw(256));
      }
      try {
        const auto source = files.open();
        if (source->has(kCodedWeight)) source->read(kCodedWeight, shape);
        ++num_opened;
      } catch (const Error& error) {
        CAPTURE(error.what());
        CHECK((error.code() == ErrorCode::kBadModel || error.code() == ErrorCode::kUnavailable));
        ++num_refused;
      }
    }
  }
  CHECK(num_opened > 0);
  CHECK(num_refused > num_opened);
}

}  // namespace caption::testing
