// Times steps of a small random decoder. On the CPU, whose operations have the same names.
#include "bench/step_bench.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>

#include "backend/thread_pool.h"
#include "base/error.h"
#include "base/json.h"
#include "model/random_model.h"

namespace caption::bench {
namespace {

const model::DecoderSpec kShape = {.num_layers = 2,
                                   .hidden = 64,
                                   .intermediate = 160,
                                   .num_heads = 4,
                                   .num_kv_heads = 2,
                                   .head_dim = 24,
                                   .vocab = 304,
                                   .max_positions = 512,
                                   .qk_norm = true};

StepBench measure(const std::vector<CudaStep>& steps, const char* card,
                  DType kv_dtype = DType::kBF16, const CublasLt* library = nullptr) {
  ThreadPool pool(1);
  Stream stream(pool);
  const auto decoder = model::make_random_decoder(stream, kShape, weights::WeightFormat::kBF16, 5);
  StepBenchOptions options;
  options.steps = steps;
  options.card = card == nullptr ? nullptr : find_cuda_card(card);
  options.library = library;
  options.kv_dtype = kv_dtype;
  options.num_rounds = 2;
  options.roofline = {.buffer_bytes = 4 << 20, .num_passes = 1, .flops_pass_us = 1000};
  return bench_steps(stream, *decoder, options);
}

TEST_SUITE("bench/step_bench") {
  TEST_CASE("every operation of a step is measured beside its prediction") {
    const StepBench bench = measure(make_steps(40, 33, {3}), "h100");
    REQUIRE(bench.steps.size() == 2);
    CHECK(bench.card == "h100");
    for (const MeasuredStep& step : bench.steps) {
      CAPTURE(step.step.name);
      double predicted_s = 0;
      for (const StepOperation& operation : step.operations) {
        CAPTURE(operation.operation);
        CHECK(operation.seconds > 0);
        CHECK(operation.ratio() > 0);
        CHECK(operation.limit != "");
        predicted_s += operation.predicted_s;
      }
      // No operation of the prediction is left over.
      CHECK(predicted_s == doctest::Approx(step.predicted_s));
      CHECK(step.seconds > 0);
    }
    const auto& operations = bench.steps.back().operations;
    const auto down = std::find_if(operations.begin(), operations.end(), [](const auto& one) {
      return one.operation == "linear_add down";
    });
    REQUIRE(down != operations.end());
    CHECK(down->calls == kShape.num_layers);
    CHECK(bench.steps.back().step.name == "decoding of 3 sequences of 33 tokens");
    const JsonObject json =
        JsonObject::parse(to_json("small", bench), "json", ErrorCode::kInternal);
    CHECK(json.get_objects("steps").size() == 2);
    CHECK(to_table("small", bench).find("predicted for h100") != std::string::npos);
  }

  TEST_CASE("without a card nothing is predicted; pages may be of 8 bits") {
    const StepBench bench = measure(make_steps(20, 20, {}), nullptr, DType::kI8);
    REQUIRE(bench.steps.size() == 1);
    CHECK(bench.steps.front().predicted_s == 0);
    CHECK(bench.steps.front().ratio() == 0);
    CHECK(to_table("small", bench).find("no prediction") != std::string::npos);
    CHECK(to_json("small", bench).find("\"ratio\"") == std::string::npos);
  }

  TEST_CASE("the products of dense layers, and no other operation, are timed by cuBLASLt, too") {
    std::string why;
    const char* const name = CAPTION_FAKE_CUBLAS_LT;
    const auto library = CublasLt::load({&name, 1}, &why);
    REQUIRE(library != nullptr);
    const StepBench bench = measure(make_steps(9, 20, {2}), nullptr, DType::kBF16, library.get());
    for (const MeasuredStep& step : bench.steps) {
      int num_timed = 0;
      for (const StepOperation& operation : step.operations) {
        CAPTURE(operation.operation);
        const bool is_dense = operation.operation.find("linear") != std::string::npos;
        CHECK((operation.library_s > 0) == is_dense);
        CHECK((operation.library_ratio() > 0) == is_dense);
        num_timed += is_dense ? 1 : 0;
      }
      CHECK(num_timed == 5);
    }
    CHECK(to_table("small", bench).find("cuBLASLt") != std::string::npos);
    CHECK(to_json("small", bench).find("\"cublaslt_ratio\":") != std::string::npos);
  }

  TEST_CASE("a step longer than the model's positions is refused") {
    CHECK_THROWS_AS(measure(make_steps(513, 20, {1}), "h100"), Error);
  }

  TEST_CASE("a driver's name means one of the cards, or none") {
    const auto name_of = [](const char* name) {
      const CudaCard* const card = find_card_of({.name = name});
      return std::string(card == nullptr ? "none" : card->name);
    };
    CHECK(name_of("Tesla T4") == "t4");
    CHECK(name_of("NVIDIA L4") == "l4");
    CHECK(name_of("NVIDIA L40S") == "none");
    CHECK(name_of("NVIDIA A100-SXM4-40GB") == "a100");
    CHECK(name_of("NVIDIA H100 80GB HBM3") == "h100");
    CHECK(name_of("NVIDIA H200") == "h200");
    CHECK(name_of("NVIDIA GeForce RTX 4090") == "none");
  }
}

}  // namespace
}  // namespace caption::bench
