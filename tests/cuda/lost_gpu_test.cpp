// A GPU that is lost, at calls of the runtime in turn.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/profile.h"
#include "backend/profile_scope.h"
#include "backend/stream.h"
#include "base/error.h"
#include "tests/engine/fake_decoder.h"
#include "tests/support/cuda/emulated_runtime.h"
#include "tests/support/thorough.h"

using caption::Context;
using caption::Device;
using caption::DType;
using caption::Error;
using caption::ErrorCode;
using caption::Stream;
using caption::Tensor;
using caption::ThreadPool;
using namespace caption::engine;
namespace cuda_emulator = caption::cuda_emulator;

namespace {

struct Finished {
  std::vector<Completion> completions;
  EngineStats stats;
  std::optional<std::string> error;
};

// Engines without and with a tier of pages in the host's memory.
EngineOptions options_with_host_pages(std::int64_t num_host_pages) {
  EngineOptions options = options_with_pages(12);
  if (num_host_pages == 0) return options;
  options.prefix_cache = PrefixCache::kOn;
  options.host_pages_bytes = num_host_pages * options.kv_cache_bytes / 12;
  return options;
}

// Runs seven requests on too few pages for all: two of them with videos, one with beams, and a
// short one whose tokens the GPU chooses. With a tier, two on one
// video are the first and the last.
Finished run_requests(const EngineOptions& options) {
  Finished finished;
  try {
    ThreadPool pool(1);
    Stream stream(Context{.device = Device::kCuda}, pool);
    FakeDecoder decoder;
    TestedEngine engine(decoder, stream, options);
    if (options.host_pages_bytes > 0) engine.submit(family_request(1, 1, 80));
    for (std::uint64_t seed = 0; seed < 6; ++seed) engine.submit(random_request(seed, 80));
    engine.submit_as_is({.prompt_ids = {1, 2, 3}, .sampling = {.max_new_tokens = 2}});
    const auto finish = [&] {
      while (!engine.idle()) {
        for (Completion& completion : engine.step()) {
          finished.completions.push_back(std::move(completion));
        }
      }
    };
    finish();
    if (options.host_pages_bytes > 0) engine.submit(family_request(1, 2, 80));
    finish();
    finished.stats = engine.stats();
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kUnavailable);
    finished.error = error.what();
  }
  return finished;
}

// The GPU is lost at each of the first calls, which open the engine and make its first steps, and
// of the later ones, which make such steps again, at one in kThoroughShare.
void check_losses(const EngineOptions& options) {
  cuda_emulator::lose_device_at(-1);
  const Finished undisturbed = run_requests(options);
  const std::int64_t num_calls = cuda_emulator::count_calls();
  REQUIRE_FALSE(undisturbed.error.has_value());
  REQUIRE(undisturbed.completions.size() == (options.host_pages_bytes > 0 ? 9 : 7));
  REQUIRE(num_calls > 100);
  // With the tier, pages go to the host's memory and come back.
  CHECK((undisturbed.stats.host_hit_tokens > 0) == (options.host_pages_bytes > 0));
  std::map<RequestId, std::vector<std::int32_t>> outputs;
  for (const Completion& completion : undisturbed.completions) {
    outputs[completion.id] = completion.output_ids;
  }
  const std::int64_t held_bytes = cuda_emulator::allocated_bytes();
  std::size_t most_done = 0;
  constexpr std::int64_t kNumFirst = 150;
  const int stride = caption::test::is_thorough() ? 1 : caption::test::kThoroughShare;
  for (std::int64_t call = 0; call < num_calls; call += call < kNumFirst ? 1 : stride) {
    CAPTURE(call);
    cuda_emulator::lose_device_at(call);
    const Finished finished = run_requests(options);
    REQUIRE(finished.error.has_value());
    CHECK(*finished.error == "cuda: the GPU is lost (emulated)");
    for (const Completion& completion : finished.completions) {
      CHECK_FALSE(completion.error.has_value());
      CHECK(completion.output_ids == outputs.at(completion.id));
    }
    most_done = std::max(most_done, finished.completions.size());
    CHECK(cuda_emulator::allocated_bytes() == held_bytes);
  }
  CHECK(most_done >= 4);
  cuda_emulator::lose_device_at(-1);
  // Nothing is left of the lost ones.
  CHECK(run_requests(options).completions.size() == undisturbed.completions.size());
}

}  // namespace

TEST_SUITE_BEGIN("cuda/lost_gpu");

TEST_CASE("whenever the GPU is lost, the engine ends with an error and what was done is right") {
  for (const std::int64_t num_host_pages : {0, 20}) {
    CAPTURE(num_host_pages);
    check_losses(options_with_host_pages(num_host_pages));
  }
}

TEST_CASE("a GPU that is lost while a kernel is timed costs the time alone") {
  ThreadPool pool(1);
  Stream stream(Context{.device = Device::kCuda}, pool);
  caption::Profile profile;
  stream.set_profile(&profile);
  {
    const caption::ProfileScope scope(stream, "norm");
    cuda_emulator::lose_device_at(0);
  }
  CHECK_THROWS_AS(stream.synchronize(), Error);
  cuda_emulator::lose_device_at(-1);
  CHECK(profile.entries().empty());
}

TEST_SUITE_END();
