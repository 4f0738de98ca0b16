#include "pipeline/threads.h"

#include <doctest/doctest.h>

namespace caption::pipeline {
namespace {

TEST_SUITE("pipeline/threads") {
  TEST_CASE("every stage has a thread, and engine and vision together no more than there are") {
    for (int num_threads = 1; num_threads <= 256; ++num_threads) {
      const ThreadPlan plan = plan_threads(num_threads);
      CAPTURE(num_threads);
      CHECK(plan.decode >= 1);
      CHECK(plan.vision >= 1);
      CHECK(plan.engine >= 1);
      CHECK(plan.decode <= num_threads);
      if (num_threads >= 4) CHECK(plan.engine + plan.vision <= num_threads);
    }
  }

  TEST_CASE("the split is told in one line") {
    CHECK(describe_threads(2, plan_threads(2)) ==
          "2: engine 2, vision 1, decode 2; a stage that is ahead sleeps");
    CHECK(describe_threads(3, {.decode = 1, .vision = 1, .engine = 1}) ==
          "3: engine 1, vision 1, decode 1");
    CHECK(describe_threads(16, plan_threads(16, 2)) ==
          "16: engine 2 x 6, vision 2 x 2, decode 16; a stage that is ahead sleeps");
    CHECK(plan_threads(2, 4).engine == 1);
  }
}

}  // namespace
}  // namespace caption::pipeline
