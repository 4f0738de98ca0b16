// Tests what memory `caption-cli quantize` needs: that of a layer, whatever the model has.
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "tests/app/drawn_model.h"
#include "tests/app/process.h"

namespace caption::test {
namespace {

namespace fs = std::filesystem;

// Quantises a model. Returns the largest resident set of the process.
std::int64_t peak_bytes(const fs::path& model, const fs::path& output, const char* format) {
  fs::remove_all(output);
  const pid_t child =
      start_cli({"quantize", "-q", model.string(), "-o", output.string(), "--format", format},
                output.string() + ".stderr");
  int status = 0;
  rusage usage{};
  REQUIRE(::wait4(child, &status, 0, &usage) == child);
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) == 0);
  return std::int64_t{1024} * usage.ru_maxrss;
}

TEST_SUITE("app/quantize_memory") {
  TEST_CASE("quantize needs the memory of one layer besides that of the program") {
    const fs::path folder = fs::path(CAPTION_TEST_TMP) / "quantize_memory";
    fs::remove_all(folder);
    fs::create_directories(folder);
    const fs::path model = folder / "model";
    write_drawn_model(model);
    const fs::path small = fs::path(CAPTION_SOURCE_DIR) / "tests/golden/model/composed/llm";
    for (const char* const format : {"nf4", "gguf-q4_0"}) {
      CAPTURE(format);
      // A model of 0.2 MB needs the program, its libraries and threads, and buffers whose size no
      // model changes.
      const std::int64_t constant = peak_bytes(small, folder / "out", format);
      // Pages of the layer's bf16 in the file, and its codes of 4.5 bits.
      const std::int64_t layer = DrawnModel::kLayerWeights * 2 + DrawnModel::kLayerWeights * 9 / 16;
      const std::int64_t peak = peak_bytes(model, folder / "out", format);
      CAPTURE(constant);
      CHECK(peak <= constant + layer);
      CHECK(constant + 2 * layer < DrawnModel::kLayers * DrawnModel::kLayerWeights * 2);
    }
    fs::remove_all(folder);
  }
}

}  // namespace
}  // namespace caption::test
