// The memory of a GPU that an engine takes: all of it before its first step.
#include <doctest/doctest.h>

#include <cstdint>

#include "backend/stream.h"
#include "tests/engine/fake_decoder.h"
#include "tests/support/cuda/emulated_runtime.h"

using caption::Context;
using caption::Device;
using caption::Stream;
using caption::ThreadPool;
using namespace caption::engine;
namespace cuda_emulator = caption::cuda_emulator;

TEST_SUITE_BEGIN("cuda/engine_memory");

TEST_CASE("no step allocates memory of the GPU, whoever chooses the tokens") {
  ThreadPool pool(1);
  Stream stream(Context{.device = Device::kCuda}, pool);
  FakeDecoder decoder;
  EngineOptions options = options_with_pages(30);
  options.max_num_seqs = 6;
  TestedEngine engine(decoder, stream, options);
  Request request;
  request.prompt_ids = {1, 2, 3, 1, 2, 3};
  request.sampling = {.repetition_penalty = 1.2,
                      .no_repeat_ngram_size = 2,
                      .min_new_tokens = 5,
                      .max_new_tokens = 5,
                      .stop_ids = {4, 5, 6}};
  for (int i = 0; i < 3; ++i) engine.submit_as_is(request);
  request.sampling.num_logprobs = 0;
  engine.submit_as_is(request);
  request.sampling.num_logprobs = -1;
  request.sampling.num_beams = 2;
  engine.submit_as_is(request);
  const std::int64_t allocated = cuda_emulator::allocated_bytes();
  int num_steps = 0;
  for (; !engine.idle(); ++num_steps) {
    engine.step();
    CHECK(cuda_emulator::allocated_bytes() == allocated);
  }
  CHECK(num_steps == 5);
}

TEST_SUITE_END();
