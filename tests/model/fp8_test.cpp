// Models in fp8, on devices that multiply e4m3 numbers: the emulated GPU is the one that is tested.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/cuda/gpus.h"
#include "model/caption_model.h"
#include "model/read_blueprint.h"
#include "tests/model/captioner_golden.h"
#include "tests/model/support.h"

namespace caption {
namespace {

namespace fs = std::filesystem;
using namespace testing;
using weights::WeightFormat;

const fs::path kGoldens = fs::path(CAPTION_SOURCE_DIR) / "tests/golden/quantised_captioners";

std::string read_file(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The checkpoint fp8_block with as many scales as rows in place of those of blocks.
class RowScaledFiles {
 public:
  RowScaledFiles() : golden_(make_golden()), checkpoint_(golden_) {}
  ~RowScaledFiles() { fs::remove_all(golden_); }
  RowScaledFiles(const RowScaledFiles&) = delete;
  RowScaledFiles& operator=(const RowScaledFiles&) = delete;
  const fs::path& path() const { return checkpoint_.path(); }

 private:
  static fs::path make_golden() {
    const fs::path from = kGoldens / "fp8_block";
    // Beside the others, because the files name shared ones by their place.
    const fs::path to = fs::path(CAPTION_TEST_TMP) / "golden/quantised_captioners/fp8_rows";
    fs::remove_all(to);
    fs::create_directories(to.parent_path());
    fs::copy(from, to);
    const fs::path shared = fs::path(CAPTION_TEST_TMP) / "golden/qwen_vl_tokenizer";
    fs::remove_all(shared);
    fs::copy(kGoldens.parent_path() / "qwen_vl_tokenizer", shared);
    std::string config = read_file(from / "config.json");
    config = std::regex_replace(config, std::regex(R"(,\s*"weight_block_size": \[[^\]]*\])"), "");
    std::ofstream(to / "config.json") << config;
    std::string tensors = read_file(from / "tensors.json");
    const std::regex scales(
        R"(("shape": \[(\d+), \d+\], "file": 0\},\s*\{"name": "[^"]*weight_scale)_inv("[^\[]*)\[\d+, \d+\])");
    tensors = std::regex_replace(tensors, scales, "$1$3[$2]");
    REQUIRE(tensors.find("scale_inv") == std::string::npos);
    std::ofstream(to / "tensors.json") << tensors;
    return to;
  }

  fs::path golden_;
  DrawnCheckpoint checkpoint_;
};

// The logits after a prompt about a clip.
std::vector<float> logits_of(model::CaptionModel& model) {
  const CaptionerGolden golden("quantised_captioners", "fp8_block");
  ThreadPool pool(2);
  Stream stream(tested_context(), pool);
  const std::vector<GoldenClip> clips = golden.clips(pool, model);
  const Tensor vision = model.encode_frames(stream, clips[0].pixel_values.view());
  const model::PromptIds prompt = model.build_prompt("이 영상을 설명해 주세요.", clips[0].shape);
  const std::int64_t num_prompt = std::ssize(prompt.ids);
  Sequence sequence(model.decoder(), DType::kF32, num_prompt);
  const Tensor logits = sequence.prefill(stream, prompt, vision.view(), num_prompt);
  const std::span<const float> row = row_of(logits, logits.dim(0) - 1);
  return {row.begin(), row.end()};
}

double norm_of_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += difference * difference;
  }
  return std::sqrt(sum);
}

std::unique_ptr<model::CaptionModel> open(const fs::path& folder, WeightFormat format,
                                          bool requantises = false) {
  return model::open_model(tested_context(), folder, format, {.requantises = requantises});
}

bool has_products() {
  return !weights::find_obstacle(tested_context(), WeightFormat::kFp8).has_value();
}

TEST_SUITE("model/fp8") {
  TEST_CASE("fp8 is refused on the GPUs that have no kernels of it, and on no others") {
    for (const int capability : {75, 80, 86, 89, 90}) {
      CAPTURE(capability);
      const Context gpu{.device = Device::kCuda, .compute_capability = capability};
      CHECK(weights::find_obstacle(gpu, WeightFormat::kFp8).has_value() !=
            kernels::cuda::kGpusOfE4M3.contains(capability));
    }
  }

  TEST_CASE("a device without products of e4m3 refuses, with what to take instead") {
    const fs::path folder = fs::path(CAPTION_SOURCE_DIR) / "samples/demo-model";
    for (const Context& context :
         {Context{}, Context{.device = Device::kMirror},
          Context{.device = tested_context().device, .compute_capability = 80}}) {
      try {
        model::open_model(context, folder, WeightFormat::kFp8);
        FAIL_CHECK("opened");
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::kUnavailable);
        CHECK(std::string(error.what()).find("use --dtype w8a8") != std::string::npos);
      }
    }
  }

  TEST_CASE("logits drift from f32 as roundings to three bits let them, and no more") {
    if (!has_products()) return;
    const RowScaledFiles files;
    const auto f32 = open(files.path(), WeightFormat::kF32);
    const auto bf16 = open(files.path(), WeightFormat::kBF16);
    const auto fp8 = open(files.path(), WeightFormat::kFp8);
    const model::Blueprint blueprint = model::read_blueprint(files.path());
    CHECK(fp8->weight_bytes() ==
          model::placed_bytes(tested_context(), blueprint, WeightFormat::kFp8));
    CHECK(fp8->weight_bytes() < bf16->weight_bytes());
    const std::vector<float> exact = logits_of(*f32);
    const double of_bf16 = norm_of_difference(logits_of(*bf16), exact);
    const double of_fp8 = norm_of_difference(logits_of(*fp8), exact);
    // The numbers of the file are exact in all three, so that activations alone are rounded: to 3
    // bits of fraction in fp8 and 7 in bf16, by 16 times as much. Rounding the weights, too, would
    // add as much again, independently: sqrt(2). The head is int8 in fp8, which errs less.
    CHECK(of_bf16 > 0);
    CHECK(of_fp8 > 4 * of_bf16);
    CHECK(of_fp8 < 2 * 16 * of_bf16);
    // The same numbers, read from the file as bf16 and rounded anew: scales of rows change.
    const auto again = open(files.path(), WeightFormat::kInt8);
    CHECK(norm_of_difference(logits_of(*again), exact) < of_fp8);
  }

  TEST_CASE("scales of blocks are refused, unless they may be rounded again") {
    const CaptionerGolden golden("quantised_captioners", "fp8_block");
    if (!has_products()) return;
    CHECK_THROWS_WITH_AS(open(golden.folder(), WeightFormat::kFp8),
                         doctest::Contains("(fp8 with scales of blocks), which fp8 would round"),
                         Error);
    const auto f32 = open(golden.folder(), WeightFormat::kF32);
    const auto fp8 = open(golden.folder(), WeightFormat::kFp8, true);
    const std::vector<float> exact = logits_of(*f32);
    const double drift = norm_of_difference(logits_of(*fp8), exact);
    const double size = norm_of_difference(exact, std::vector<float>(exact.size()));
    CHECK(drift > 0);
    // Two independent roundings by at most 2^-4 of each factor; the sums of products with random
    // signs err less than their factors, and the layers' errors add to the residual stream.
    CHECK(drift < 0.25 * size);
  }
}

}  // namespace
}  // namespace caption
