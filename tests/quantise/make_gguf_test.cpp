// GGUF files in folders of their own: what an interrupted call leaves, and what is made of it.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"
#include "quantise/make_gguf.h"
#include "tests/quantise/folders.h"

namespace caption::quantise {
namespace {

namespace fs = std::filesystem;
using namespace testing;

constexpr const char* kText = "demo-model-Q4_0.gguf";
constexpr const char* kTower = "mmproj-demo-model-Q8_0.gguf";
constexpr std::int64_t kNumTensors = 113;

GgufOptions gguf_options(const char* folder) {
  return {.model = demo_model(),
          .output = new_folder(std::string("quantise_gguf/") + folder),
          .format = "gguf-q4_0",
          .type = weights::GgufWeights::kQ4_0,
          .part_bytes = 100'000};
}

Files whole_files() {
  const GgufOptions options = gguf_options("whole");
  REQUIRE(make_gguf(options)->tensors_kept == 0);
  return files_of(options.output);
}

std::string unfinished(const char* file) { return file + std::string(".part"); }

// Stops a call when it has written this share of its bytes.
void stop_at(GgufOptions options, double share) {
  std::atomic<bool> stop{false};
  options.stop = &stop;
  options.on_progress = [&](const QuantiseProgress& progress) {
    CHECK_FALSE(stop);
    const auto total = static_cast<double>(progress.bytes_total);
    if (static_cast<double>(progress.bytes_done) >= share * total) stop = true;
  };
  CHECK_FALSE(make_gguf(options));
}

TEST_SUITE_BEGIN("quantise/make_gguf");

TEST_CASE("files that a call was stopped in are continued to the same bytes") {
  const Files expected = whole_files();
  CHECK(expected.size() == 3);
  for (const double share : {0.0, 0.3, 0.6, 0.9}) {
    CAPTURE(share);
    const GgufOptions options = gguf_options("stopped");
    stop_at(options, share);
    CHECK_FALSE(files_of(options.output).contains(kTower));
    stop_at(options, 0.2);  // a share of what is left
    const std::int64_t kept = make_gguf(options)->tensors_kept;
    CHECK(kept > 0);
    CHECK(kept < kNumTensors);
    CHECK(files_of(options.output) == expected);
    const fs::file_time_type written = fs::last_write_time(options.output / kText);
    CHECK(make_gguf(options)->tensors_kept == kNumTensors);
    CHECK(fs::last_write_time(options.output / kText) == written);
    CHECK(files_of(options.output) == expected);
  }
}

TEST_CASE("a call that ended without notice is continued from the last part in the manifest") {
  const Files expected = whole_files();
  GgufOptions options = gguf_options("killed");
  for (const std::int64_t tensors : {10, 30, 60, 100}) {
    CAPTURE(tensors);
    options.on_progress = [&](const QuantiseProgress& progress) {
      if (progress.tensors_done >= tensors) throw std::runtime_error("ended");
    };
    CHECK_THROWS_WITH(make_gguf(options), "ended");
    const char* const file = tensors < 39 ? kText : kTower;  // the text file has 39
    CHECK(contains_text(read_whole_file(options.output / kManifestName), unfinished(file)));
  }
  options.on_progress = {};
  CHECK(make_gguf(options)->tensors_kept > 60);
  CHECK(files_of(options.output) == expected);
}

TEST_CASE("what is left of a call is redone from where it is not as it was written") {
  const Files expected = whole_files();
  const auto overwrite = [](const fs::path& file, std::int64_t at) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(at);
    stream.put('\x55').put('\xAA').put('\x55');
  };
  const GgufOptions options = gguf_options("damaged");
  const fs::path part = options.output / unfinished(kText);
  const fs::path manifest = options.output / kManifestName;
  stop_at(options, 0.3);
  const Files stopped = files_of(options.output);
  const auto restore = [&] {
    fs::remove_all(options.output);
    fs::create_directory(options.output);
    for (const auto& [name, content] : stopped) {
      std::ofstream(options.output / name, std::ios::binary) << content;
    }
  };
  const std::int64_t kept = make_gguf(options)->tensors_kept;
  CHECK(kept > 10);
  const auto half = static_cast<std::int64_t>(fs::file_size(options.output / kText)) / 4;
  const struct {
    const char* what;
    std::function<void()> damage;
    bool keeps_some, keeps_all;
  } rows[] = {
      {"a byte in the middle", [&] { overwrite(part, half); }, true, false},
      {"a byte of the header", [&] { overwrite(part, 30); }, false, false},
      {"cut", [&] { fs::resize_file(part, static_cast<std::uintmax_t>(half)); }, true, false},
      {"longer", [&] { std::ofstream(part, std::ios::app) << "more"; }, true, true},
      {"gone", [&] { fs::remove(part); }, false, false},
      {"another file", [&] { std::ofstream(part) << "mine"; }, false, false},
      {"a manifest that names no part",
       [&] {
         fs::remove(manifest);
         fs::remove(part);
       },
       false, false},
  };
  for (const auto& row : rows) {
    CAPTURE(row.what);
    restore();
    row.damage();
    const std::int64_t found = make_gguf(options)->tensors_kept;
    CHECK((found > 0) == row.keeps_some);
    CHECK((found == kept) == row.keeps_all);
    CHECK(files_of(options.output) == expected);
  }
  // Whole files.
  overwrite(options.output / kText, 500'000);
  CHECK(make_gguf(options)->tensors_kept == kNumTensors - 39);
  CHECK(files_of(options.output) == expected);
  // A part without a manifest is a foreign file.
  restore();
  fs::remove(manifest);
  CHECK_THROWS_WITH_AS(make_gguf(options),
                       doctest::Contains("is there without caption-cli.quantize.json"), Error);
  CHECK(files_of(options.output).size() == 1);
}

TEST_CASE("parts bind the settings, and the keys that stand before them") {
  GgufOptions options = gguf_options("bound");
  const fs::path model = new_folder("quantise_gguf/model") / "demo-model";
  fs::create_directories(model.parent_path());
  fs::copy(demo_model(), model);
  options.model = model;
  stop_at(options, 0.3);
  GgufOptions other = options;
  other.format = "gguf-q8_0";
  other.type = weights::GgufWeights::kQ8_0;
  CHECK_THROWS_WITH_AS(make_gguf(other), doctest::Contains("made with --format gguf-q4_0, not"),
                       Error);
  // The file of generation is a key of the text file, whose parts begin after it.
  const fs::path generation = model / "generation_config.json";
  std::string text = read_whole_file(generation);
  text.insert(text.find('{') + 1, "\"temperature\": 0.25,");
  std::ofstream(generation) << text;
  CHECK(make_gguf(options)->tensors_kept == 0);
  const Files made = files_of(options.output);
  options.output = new_folder("quantise_gguf/bound_whole");
  CHECK(make_gguf(options)->tensors_kept == 0);
  CHECK(files_of(options.output) == made);
  std::ofstream(generation) << "{}";
  CHECK(make_gguf(options)->tensors_kept == kNumTensors - 39);  // the tower
}

TEST_SUITE_END();

}  // namespace
}  // namespace caption::quantise
