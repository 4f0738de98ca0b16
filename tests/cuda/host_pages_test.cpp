// Evicted pages in the host's memory, with a small decoder on the emulated GPU, whose queues run in
// drawn orders: a page that is used before its copy is finished has other bits.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/engine.h"
#include "model/random_model.h"
#include "tests/cuda/small_decoder.h"
#include "tests/support/cuda/emulated_runtime.h"
#include "tests/support/cuda/queues.h"

using caption::Context;
using caption::Device;
using caption::DType;
using caption::Stream;
using caption::ThreadPool;
using namespace caption::engine;
namespace cuda_emulator = caption::cuda_emulator;
namespace model = caption::model;

namespace {

const model::DecoderSpec kSpec = caption::testing::small_decoder(2);
constexpr std::int64_t kPromptPages = 3;

struct Room {
  ThreadPool pool{1};
  Stream stream{Context{.device = Device::kCuda}, pool};
  std::unique_ptr<model::Decoder> decoder =
      model::make_random_decoder(stream, kSpec, caption::weights::WeightFormat::kBF16, 3);
};

EngineOptions options_with_host_pages(std::int64_t num_host_pages, DType dtype) {
  const std::int64_t page_bytes = 16 * model::kv_token_bytes(kSpec, dtype);
  EngineOptions options;
  options.kv_dtype = dtype;
  options.kv_cache_bytes = 9 * page_bytes;
  options.max_num_seqs = 2;
  options.max_num_batched_tokens = 40;
  options.prefix_cache = PrefixCache::kOn;
  options.host_pages_bytes = num_host_pages * page_bytes;
  return options;
}

// Requests whose prompts fill kPromptPages pages and share nothing.
std::vector<Request> unlike_requests(std::int32_t count) {
  std::vector<Request> requests(static_cast<std::size_t>(count));
  for (std::int32_t i = 0; i < count; ++i) {
    Request& request = requests[static_cast<std::size_t>(i)];
    for (std::int32_t token = 0; token < kPromptPages * 16 + 1; ++token) {
      request.prompt_ids.push_back((7 * i + token * (i + 1)) % 48);
    }
    request.sampling.max_new_tokens = 4;
    request.sampling.num_logprobs = 0;
  }
  return requests;
}

// What shows a changed bit of a page.
struct Output {
  std::vector<std::int32_t> ids;
  std::vector<double> logprobs;

  bool operator==(const Output&) const = default;
};

struct Run {
  std::vector<std::vector<Output>> rounds;  // indexed by round and request
  EngineStats stats;
  std::int64_t most_waits = 0;  // most waits of the host in a step
  bool has_allocated = false;   // whether a step allocated memory of the GPU
};

// Computes the requests, two at a time, then all of them again, and so on.
Run run_rounds(Room& room, const EngineOptions& options, const std::vector<Request>& requests,
               int num_rounds) {
  Engine engine(*room.decoder, room.stream, options);
  const std::int64_t allocated = cuda_emulator::allocated_bytes();
  Run run;
  for (int round = 0; round < num_rounds; ++round) {
    std::vector<Output>& outputs = run.rounds.emplace_back(requests.size());
    const auto first = static_cast<std::size_t>(engine.submit(requests.front()));
    for (std::size_t i = 1; i < requests.size(); ++i) engine.submit(requests[i]);
    while (!engine.idle()) {
      const std::int64_t before = cuda_emulator::count_waits();
      for (const Completion& completion : engine.step()) {
        CHECK_FALSE(completion.error.has_value());
        Output& output = outputs.at(static_cast<std::size_t>(completion.id) - first);
        output.ids = completion.output_ids;
        for (const auto& token : completion.logprobs) {
          output.logprobs.push_back(token.chosen.logprob);
        }
      }
      run.most_waits = std::max(run.most_waits, cuda_emulator::count_waits() - before);
      run.has_allocated |= cuda_emulator::allocated_bytes() != allocated;
    }
  }
  run.stats = engine.stats();
  return run;
}

}  // namespace

TEST_SUITE_BEGIN("cuda/host_pages");

TEST_CASE("evicted pages come back with their bits, in any order of the queues") {
  for (const DType dtype : {DType::kBF16, DType::kI8}) {
    CAPTURE(dtype);
    Room room;
    const std::vector<Request> requests = unlike_requests(6);
    const std::int64_t prompt_pages = kPromptPages * std::ssize(requests);
    const Run without = run_rounds(room, options_with_host_pages(0, dtype), requests, 3);
    CHECK(without.rounds[1] == without.rounds[0]);
    CHECK(without.stats.host_stored_pages == 0);
    CHECK(without.most_waits == 1);
    for (const std::uint64_t seed : {0, 1, 2, 3}) {
      CAPTURE(seed);
      cuda_emulator::seed_queues(seed);
      const Run with = run_rounds(room, options_with_host_pages(prompt_pages, dtype), requests, 3);
      cuda_emulator::seed_queues(0);
      CHECK(with.rounds == without.rounds);
      // Each page is copied to the host once, and all prompts come back from there or from the GPU.
      CHECK(with.stats.host_stored_pages <= prompt_pages);
      CHECK(with.stats.prefix_hit_tokens == 2 * 16 * prompt_pages);
      CHECK(with.stats.host_hit_tokens >= 16 * prompt_pages);
      CHECK(with.stats.prefill_tokens < without.stats.prefill_tokens);
      // The copies cost neither a wait of the host nor memory of the GPU.
      CHECK(with.most_waits == 1);
      CHECK_FALSE(with.has_allocated);
    }
  }
}

TEST_CASE("with room for few pages their slots are used again, and the tokens stay the same") {
  Room room;
  const std::vector<Request> requests = unlike_requests(6);
  const Run without = run_rounds(room, options_with_host_pages(0, DType::kBF16), requests, 2);
  for (const std::int64_t num_host_pages : {1, 2, 5}) {
    CAPTURE(num_host_pages);
    for (const std::uint64_t seed : {1, 2, 3}) {
      cuda_emulator::seed_queues(seed);
      const Run with =
          run_rounds(room, options_with_host_pages(num_host_pages, DType::kBF16), requests, 2);
      cuda_emulator::seed_queues(0);
      CHECK(with.rounds == without.rounds);
      CHECK(with.stats.host_stored_pages > num_host_pages);  // slots were used again
    }
  }
}

TEST_SUITE_END();
