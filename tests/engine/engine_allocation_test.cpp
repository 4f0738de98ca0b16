// Steady decoding steps do not allocate: this executable counts every call of operator new.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <string>

#include "backend/thread_pool.h"
#include "engine/engine.h"
#include "tests/engine/fake_decoder.h"

namespace {

std::atomic<std::int64_t> g_num_allocations = 0;

}  // namespace

void* operator new(std::size_t size_bytes) {
  ++g_num_allocations;
  if (void* memory = std::malloc(size_bytes)) return memory;
  throw std::bad_alloc();
}
// std::stable_sort asks this one for its buffer. The library's calls the one above, that of a
// sanitizer does not, and its memory must not be freed below.
void* operator new(std::size_t size_bytes, const std::nothrow_t& /*tag*/) noexcept {
  ++g_num_allocations;
  return std::malloc(size_bytes);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace caption::engine {
namespace {

TEST_SUITE("engine/engine") {
  TEST_CASE("a steady decoding step allocates nothing") {
    struct Case {
      const char* name;
      sampling::SamplingParams sampling;
      PrefixCache prefix_cache = PrefixCache::kOff;
    };
    const Case cases[] = {
        {"greedy", {.max_new_tokens = 200}},
        {"the preset",
         {.temperature = 0.7,
          .top_k = 50,
          .top_p = 0.9,
          .repetition_penalty = 1.1,
          .no_repeat_ngram_size = 3,
          .max_new_tokens = 200}},
        {"behind the prefix cache", {.max_new_tokens = 200}, PrefixCache::kOn},
        {"beams", {.max_new_tokens = 200, .num_beams = 3}},
    };
    for (const Case& c : cases) {
      CAPTURE(std::string(c.name));
      ThreadPool pool(1);
      Stream stream(testing::tested_context(), pool);
      FakeDecoder decoder;
      EngineOptions options = options_with_pages(250);
      options.prefix_cache = c.prefix_cache;
      TestedEngine engine(decoder, stream, options);
      for (std::int32_t i = 0; i < 4; ++i) {
        Request request;
        request.prompt_ids = {1, 2, i};
        request.sampling = c.sampling;
        engine.submit(std::move(request));
      }
      for (int step = 0; step < 5; ++step) engine.step();
      const std::int64_t num_before = g_num_allocations;
      for (int step = 0; step < 100; ++step) engine.step();  // also crosses page boundaries
      CHECK(g_num_allocations - num_before == 0);
      CHECK(engine.num_unfinished() == 4);
    }
  }
}

}  // namespace
}  // namespace caption::engine
