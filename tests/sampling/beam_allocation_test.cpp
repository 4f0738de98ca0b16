// A beam search allocates no memory per step; this executable counts every call of operator new.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "tests/sampling/table_model.h"

namespace {

std::atomic<std::int64_t> g_num_allocations = 0;

}  // namespace

void* operator new(std::size_t size_bytes) {
  ++g_num_allocations;
  if (void* memory = std::malloc(size_bytes)) return memory;
  throw std::bad_alloc();
}
// Used by std::stable_sort.
void* operator new(std::size_t size_bytes, const std::nothrow_t&) noexcept {
  ++g_num_allocations;
  return std::malloc(size_bytes);
}
// Not inlined: beside a call of operator new, which is not inlined, free() would look mismatched.
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace caption::sampling {
namespace {

using testing::SearchOfLogits;

TEST_SUITE("sampling/beam_search") {
  TEST_CASE("no step allocates, from the first to the last") {
    constexpr std::int64_t kVocab = 60;
    const SamplingParams plain{.max_new_tokens = 200, .stop_ids = {3}, .num_beams = 4};
    SamplingParams penalised = plain;
    penalised.repetition_penalty = 1.1;
    penalised.no_repeat_ngram_size = 3;
    penalised.min_new_tokens = 2;
    penalised.early_stopping = EarlyStopping::kNever;
    penalised.length_penalty = 1.2;
    const TableModel model = make_table_model(kVocab, 5, 1);
    for (const SamplingParams& params : {plain, penalised}) {
      CAPTURE(params.repetition_penalty);
      BeamScorer scorer(kVocab);
      std::vector<float> logits;
      logits.reserve(static_cast<std::size_t>(params.num_beams * kVocab));
      SearchOfLogits search(params, std::vector<std::int32_t>{1, 2});
      const std::int64_t num_before = g_num_allocations;
      std::int64_t num_rows = 1;
      std::int64_t num_steps = 0;
      for (; !search.is_finished(); ++num_steps) {
        take_step(model, search, scorer, num_rows, logits);
        num_rows = params.num_beams;
      }
      const std::int64_t num_allocated = g_num_allocations - num_before;
      CHECK(num_allocated == 0);
      CHECK(num_steps > 5);
    }
  }
}

}  // namespace
}  // namespace caption::sampling
