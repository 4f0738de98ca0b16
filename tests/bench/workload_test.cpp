#include "bench/workload.h"

#include <doctest/doctest.h>

#include <set>

#include "base/error.h"

namespace caption::bench {
namespace {

constexpr model::DecoderSpec kSpec = {.num_layers = 1,
                                      .hidden = 8,
                                      .num_heads = 1,
                                      .num_kv_heads = 1,
                                      .head_dim = 8,
                                      .vocab = 100,
                                      .max_positions = 700};

TEST_SUITE("bench/workload") {
  TEST_CASE("uneven outputs come as 500, 20, 200, scaled and never empty") {
    const Workload workload = make_uneven_workload(5, 64, 1);
    REQUIRE(workload.requests.size() == 5);
    CHECK(workload.requests[0].output_tokens == 500);
    CHECK(workload.requests[1].output_tokens == 20);
    CHECK(workload.requests[2].output_tokens == 200);
    CHECK(workload.requests[3].output_tokens == 500);
    CHECK(make_uneven_workload(2, 1, 0.001).requests[1].output_tokens == 1);
    CHECK(most_positions(workload) == 563);
  }

  TEST_CASE("a mix has short and long requests, the same for the same seed") {
    const Workload a = make_mixed_workload(300, 512, 5);
    const Workload b = make_mixed_workload(300, 512, 5);
    const Workload c = make_mixed_workload(300, 512, 6);
    std::int64_t long_prompts = 0;
    std::int64_t long_outputs = 0;
    bool differs = false;
    for (std::size_t i = 0; i < a.requests.size(); ++i) {
      CHECK(a.requests[i].prompt_tokens == b.requests[i].prompt_tokens);
      CHECK(a.requests[i].output_tokens == b.requests[i].output_tokens);
      differs = differs || a.requests[i].prompt_tokens != c.requests[i].prompt_tokens;
      long_prompts += a.requests[i].prompt_tokens >= 256 ? 1 : 0;
      long_outputs += a.requests[i].output_tokens >= 256 ? 1 : 0;
      CHECK(a.requests[i].prompt_tokens >= 1);
      CHECK(a.requests[i].output_tokens <= 512);
    }
    CHECK(differs);
    // 20 % and 10 % of 300, plus or minus five standard deviations.
    CHECK(long_prompts > 25);
    CHECK(long_prompts < 95);
    CHECK(long_outputs > 5);
    CHECK(long_outputs < 56);
  }

  TEST_CASE("the requests of a clip share its vision tokens, those of others do not") {
    const auto requests = make_requests(make_prefix_workload({.num_clips = 2,
                                                              .prompts_per_clip = 3,
                                                              .vision_tokens = 20,
                                                              .prompt_tokens = 5,
                                                              .output_tokens = 4}),
                                        kSpec, 1);
    REQUIRE(requests.size() == 6);
    CHECK(requests[0].vision == requests[2].vision);
    CHECK(requests[0].vision != requests[3].vision);
    CHECK(requests[0].prompt_ids.size() == 25);
    CHECK(requests[0].vision_positions.size() == 20);
    CHECK(requests[0].prompt_ids != requests[1].prompt_ids);  // each prompt has different text
    CHECK(requests[0].sampling.max_new_tokens == 4);
    CHECK(requests[0].sampling.stop_ids.empty());
  }

  TEST_CASE("a request longer than the model is refused with both numbers") {
    // The last new token needs no position.
    CHECK(make_requests(make_fixed_workload(1, 600, 101), kSpec, 1).size() == 1);
    CHECK_THROWS_WITH_AS(make_requests(make_fixed_workload(1, 600, 102), kSpec, 1),
                         "bench: a request needs 701 positions, and the model holds 700; use "
                         "shorter prompts or outputs",
                         Error);
  }
}

}  // namespace
}  // namespace caption::bench
