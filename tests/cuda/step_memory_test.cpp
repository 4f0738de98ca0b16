// The memory that steps of a real decoder take: all of it is there before the first one.
#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/stream.h"
#include "base/error.h"
#include "engine/engine.h"
#include "model/random_model.h"
#include "model/step_scratch.h"
#include "tests/cuda/small_decoder.h"
#include "tests/support/cuda/emulated_runtime.h"

using caption::Context;
using caption::Device;
using caption::DType;
using caption::Error;
using caption::ErrorCode;
using caption::Stream;
using caption::ThreadPool;
using caption::weights::WeightFormat;
using namespace caption::engine;
namespace cuda_emulator = caption::cuda_emulator;
namespace model = caption::model;

namespace {

// Columns of more than one slice, and of no whole tile, for each kind of product.
const model::DecoderSpec kSpec = caption::testing::small_decoder(1, 40, 1032);

// A prompt in pieces of 70 and fewer rows, one of 40 rows, one with beams, and decoding.
std::vector<Request> requests_of_all_sizes() {
  std::vector<Request> requests(4);
  const std::int64_t lengths[] = {90, 40, 5, 18};
  for (std::size_t i = 0; i < requests.size(); ++i) {
    for (std::int64_t k = 0; k < lengths[i]; ++k) {
      requests[i].prompt_ids.push_back(
          static_cast<std::int32_t>((7 * k + static_cast<int>(i)) % 48));
    }
    requests[i].sampling.max_new_tokens = 3;
  }
  requests[1].sampling.num_logprobs = 1;
  requests[2].sampling.num_beams = 2;
  requests[3].sampling.temperature = 1;
  return requests;
}

struct Run {
  std::int64_t allocations_in_steps = 0;
  std::int64_t steps = 0;
  std::size_t completions = 0;
};

Run run(int ordinal, WeightFormat format, DType kv_dtype) {
  ThreadPool pool(1);
  Stream stream(Context{.device = Device::cuda(ordinal)}, pool);
  const std::unique_ptr<model::Decoder> decoder =
      model::make_random_decoder(stream, kSpec, format, 3);
  EngineOptions options;
  options.kv_dtype = kv_dtype;
  options.kv_cache_bytes = 24 * 16 * model::kv_token_bytes(kSpec, kv_dtype);
  options.max_num_seqs = 6;
  options.max_num_batched_tokens = 70;
  Engine engine(*decoder, stream, options);
  for (Request& request : requests_of_all_sizes()) engine.submit(std::move(request));
  const std::int64_t allocations = cuda_emulator::count_allocations();
  Run run;
  for (; !engine.idle(); ++run.steps) {
    for (const Completion& completion : engine.step()) {
      CHECK_FALSE(completion.error.has_value());
      ++run.completions;
    }
  }
  run.allocations_in_steps = cuda_emulator::count_allocations() - allocations;
  return run;
}

}  // namespace

TEST_SUITE_BEGIN("cuda/step_memory");

TEST_CASE("no step of a decoder allocates memory, whatever its weights") {
  const std::pair<WeightFormat, DType> formats[] = {
      {WeightFormat::kBF16, DType::kBF16}, {WeightFormat::kF32, DType::kF32},
      {WeightFormat::kInt8, DType::kI8},   {WeightFormat::kInt4, DType::kBF16},
      {WeightFormat::kNf4, DType::kBF16},  {WeightFormat::kW8A8, DType::kBF16},
      {WeightFormat::kW4A8, DType::kI8},
  };
  for (const auto& [format, kv_dtype] : formats) {
    CAPTURE(static_cast<int>(format));
    const Run finished = run(0, format, kv_dtype);
    CHECK(finished.completions == 4);
    CHECK(finished.steps >= 5);
    CHECK(finished.allocations_in_steps == 0);
  }
}

// Whatever is refused, weights, pages or scratch, the message says what is free and what to lower.
TEST_CASE("whenever the GPU has no memory left, an engine ends with the numbers and remedies") {
  const auto run_refused_from = [&](std::int64_t allocation) -> std::string {
    cuda_emulator::refuse_allocations_from(allocation);
    try {
      run(0, WeightFormat::kInt4, DType::kBF16);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kOutOfMemory);
      return error.what();
    }
    return "";
  };
  REQUIRE(run_refused_from(std::int64_t{1} << 40).empty());
  const std::int64_t num_allocations = cuda_emulator::count_device_allocations();
  REQUIRE(num_allocations > 20);
  const std::int64_t held_bytes = cuda_emulator::allocated_bytes();
  for (std::int64_t allocation = 0; allocation < num_allocations; ++allocation) {
    CAPTURE(allocation);
    const std::string message = run_refused_from(allocation);
    CAPTURE(message);
    CHECK(message.find("buffer: the GPU has no ") != std::string::npos);
    CHECK(message.find(" of 8.59 GB free); lower memory_utilization, the batch or the KV cache, or "
                       "use a smaller model") != std::string::npos);
    cuda_emulator::refuse_allocations_from(-1);
    CHECK(cuda_emulator::allocated_bytes() == held_bytes);
  }
  CHECK(run_refused_from(-1).empty());
}

// By hand, 4,608 tokens of Qwen3-8B in pieces of 2,304: the most is that of the second layer of the
// MLP, x in 16 bits and the sums of 12 slices in 96 blocks of 128 x 128.
TEST_CASE("the scratch memory of a known shape") {
  const model::DecoderSpec spec = {.num_layers = 36,
                                   .hidden = 4096,
                                   .intermediate = 12288,
                                   .num_heads = 32,
                                   .num_kv_heads = 8,
                                   .head_dim = 128,
                                   .vocab = 151936,
                                   .max_positions = 40960};
  const std::int64_t rounded = std::int64_t{2304} * 12288 * 2;
  const std::int64_t sums = std::int64_t{12} * 32 * 3 * 128 * 128 * 4;
  CHECK(model::step_scratch_bytes(spec, 4608, 64) == rounded + 16 + sums);
}

TEST_SUITE_END();
