// Tests the benchmark of a small tower. No times are asserted.
#include "bench/tower_bench.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "backend/thread_pool.h"
#include "base/error.h"
#include "base/json.h"
#include "model/random_model.h"

namespace caption::bench {
namespace {

const model::VisionSpec kShape = {.num_layers = 2,
                                  .hidden = 32,
                                  .intermediate = 64,
                                  .num_heads = 2,
                                  .patch_px = 4,
                                  .image_px = 16,
                                  .num_positions = 17};

struct Bench {
  ThreadPool pool{2};
  Stream stream{pool};

  TowerBench run(const model::VisionSpec& shape, std::int64_t num_frames = 3,
                 const model::FrameSize& frame = {}) {
    TowerBenchOptions options;
    options.num_frames = num_frames;
    options.frame = frame;
    options.out = 24;
    options.repeat = 1;
    options.roofline = {.buffer_bytes = 4 << 20, .num_passes = 1, .flops_pass_us = 1000};
    return bench_tower(stream, shape, weights::WeightFormat::kBF16, options);
  }
};

TEST_SUITE("bench/tower_bench") {
  TEST_CASE("counts frames, arithmetic and every kernel of a tower") {
    Bench bench;
    const TowerBench result = bench.run(kShape);
    CHECK(bench.stream.profile() == nullptr);
    CHECK(result.num_frames == 3);
    CHECK(result.frames_per_s() == doctest::Approx(3 / result.seconds));
    // 17 tokens of 48 values (the class token counts as a patch); two layers, each with four
    // matrices of [32, 32], two of [64, 32], and attention.
    const double layer = 2.0 * 17 * (4 * 32 * 32 + 2 * 64 * 32) + 4.0 * 32 * 17 * 17;
    CHECK(result.flops_per_frame == 2.0 * 17 * 48 * 32 + 2 * layer);
    const auto calls_of = [&](const char* name) {
      const auto found =
          std::find_if(result.operations.begin(), result.operations.end(),
                       [&](const OperationTime& operation) { return operation.name == name; });
      return found == result.operations.end() ? 0 : found->calls;
    };
    CHECK(calls_of("linear patches") == 1);
    CHECK(calls_of("linear q, k, v") == 2);
    CHECK(calls_of("linear_add o") == 2);
    CHECK(calls_of("linear_add fc2") >= 2);
    CHECK(calls_of("attention") == 2);
    CHECK(calls_of("layer_norm") == 5);
  }

  TEST_CASE("the report gives frames a second as text and as JSON") {
    Bench bench;
    const TowerBench result = bench.run(kShape);
    CHECK(to_table("small", result).find(" frames/s, 3 at a time") != std::string::npos);
    const JsonObject json =
        JsonObject::parse(to_json("small", result), "bench", ErrorCode::kInternal);
    CHECK(json.get_double("frames_per_s", 0) == doctest::Approx(result.frames_per_s()));
    CHECK(json.get_double("share_of_peak", 0) > 0);
    CHECK(json.get_objects("operations").size() == result.operations.size());
  }

  TEST_CASE("frames of any size are measured with the mergers, at the size they are resized to") {
    Bench bench;
    model::VisionSpec shape = {
        .num_layers = 2,
        .hidden = 32,
        .intermediate = 64,
        .num_heads = 2,
        .patch_px = 4,
        .frames_per_image = 2,
        .resize =
            vision::SmartResize{
                .unit_px = 8, .min_pixels = 64, .max_pixels = 48 * 24, .counts_clip = false},
        .class_tokens = 0,
        .pool_stride = 2};
    for (const bool gated : {false, true}) {
      CAPTURE(gated);
      shape.qwen = {.norm = gated ? model::Norm::kRms : model::Norm::kLayer, .gated_mlp = gated};
      shape.num_positions = gated ? 0 : 16;
      const TowerBench result = bench.run(shape, 3, {.width_px = 48, .height_px = 24});
      CHECK(result.width_px == 48);
      CHECK(result.height_px == 24);
      // Two images for three frames, of 6 x 12 patches of 96 values and 18 tokens each.
      const double matrices = (gated ? 3.0 : 2.0) * 32 * 64 + 4 * 32 * 32;
      const double layer = 2.0 * 72 * matrices + 4.0 * 32 * 72 * 72;
      const double merger = 2.0 * 18 * (128 * 128 + 128 * 24);
      const double image = 2.0 * 72 * 96 * 32 + 2 * layer + merger;
      CHECK(result.flops_per_frame == doctest::Approx(2 * image / 3));
      CHECK(to_table("any", result).find("3 at a time of 48x24 pixels") != std::string::npos);
    }
  }

  TEST_CASE("a tower of several frames of a fixed size is refused") {
    Bench bench;
    model::VisionSpec shape = kShape;
    shape.frames_per_image = 2;
    CHECK_THROWS_AS(bench.run(shape), Error);
  }
}

TEST_SUITE("model/random_tower") {
  TEST_CASE("the same seed gives the same hidden states, frame by frame or together") {
    ThreadPool pool(2);
    Stream stream(pool);
    Tensor pixels = Tensor::zeros(DType::kF32, {2, 3, 16, 16});
    for (std::int64_t i = 0; i < pixels.num_elements(); ++i) {
      pixels.as<float>()[i] = static_cast<float>(i % 11) * 0.1F;
    }
    const auto encode = [&](std::uint64_t seed, ConstView frames) {
      model::RandomTower tower(stream, kShape, weights::WeightFormat::kBF16, seed);
      const ConstView hidden = tower.encode(stream, frames);
      const float* const values = hidden.as<float>();
      return std::vector<float>(values, values + hidden.num_elements());
    };
    const std::vector<float> both = encode(1, pixels.view());
    CHECK(both == encode(1, pixels.view()));
    CHECK(both != encode(2, pixels.view()));
    const std::vector<float> second = encode(1, pixels.view().rows(1, 1));
    CHECK(std::equal(second.begin(), second.end(), both.begin() + std::ssize(second)));
  }
}

}  // namespace
}  // namespace caption::bench
