// What a plan says of a video that has more tokens than the model has positions.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "plan/plan.h"
#include "tests/plan/plan_inputs.h"

namespace caption::plan {
namespace {

TEST_SUITE("plan/plan") {
  TEST_CASE("a video that is too long is refused with what takes its tokens") {
    PlanInput input = input_for("llava-next-video-7b", 64LL << 30);  // 144 vision tokens a frame
    input.num_frames = 8;
    input.prompt_tokens = 9064;
    input.example_tokens = 9000;
    input.output_tokens = 128;
    const Plan with_examples = make_plan(input);
    CHECK_FALSE(with_examples.fits);
    CHECK(with_examples.is_refused_by_options());
    CHECK(with_examples.warnings.size() == 1);
    CHECK(has_warning(with_examples,
                      "a video of 10344 tokens (9000 of examples, 1152 of vision, 128 new, 64 of "
                      "the prompt) needs 10343 positions (the last new token needs none), and the "
                      "model holds 10240; use fewer or shorter examples (--examples)"));
    input.num_frames = 100;
    input.prompt_tokens = 64;
    input.example_tokens = 0;
    CHECK(has_warning(make_plan(input), "; use fewer frames (--frames)"));
    input.num_frames = 1;
    input.output_tokens = 20000;
    CHECK(has_warning(make_plan(input), "; use fewer new tokens (--max-new-tokens)"));
    input.output_option = "--output-tokens";
    CHECK(has_warning(make_plan(input), "; use fewer new tokens (--output-tokens)"));
    input.output_tokens = 128;
    input.prompt_tokens = 20000;
    input.prompt_option = "--prompt-tokens";
    CHECK(has_warning(make_plan(input), "; use a shorter prompt (--prompt-tokens)"));

    PlanInput large = input_for("qwen3-vl-2b", 64LL << 30);
    large.num_frames = 768;
    large.frame = {.width_px = 1920, .height_px = 1080};
    large.model.vision->resize->max_pixels = std::int64_t{1} << 40;
    CHECK(has_warning(make_plan(large),
                      "; use fewer frames (--frames) or smaller ones (--max-pixels)"));
  }

  TEST_CASE("the first reason for which a plan does not fit is the plan's, and no later warning") {
    PlanInput input = input_for("llava-next-video-7b", 64LL << 30);
    input.output_tokens = 20000;
    input.chunked_prefill = false;
    input.max_num_batched_tokens = 100;
    input.num_beams = 32;
    input.max_num_seqs = 16;
    const Plan long_video = make_plan(input);
    CHECK_FALSE(long_video.fits);
    CHECK(long_video.warnings.size() == 3);
    CHECK(long_video.limit == Limit::kMemory);
    CHECK(long_video.refusal == Refusal::kLength);
    CHECK(long_video.limit_reason == long_video.warnings.front());
    CHECK(long_video.limit_reason.find("a video of 21") == 0);
    input.output_tokens = 128;
    const Plan beams = make_plan(input);
    CHECK(beams.refusal == Refusal::kBeams);
    CHECK(beams.limit_reason == "32 beams do not fit max_num_seqs 16; raise it or use fewer beams");
    CHECK(beams.is_refused_by_options());
    input.memory_bytes = 1 << 30;  // a run would end before it counts beams
    const Plan weights = make_plan(input);
    CHECK(weights.refusal == Refusal::kWeights);
    CHECK(weights.limit_reason.find("weights alone take ") == 0);
    CHECK_FALSE(weights.is_refused_by_options());
  }
}

}  // namespace
}  // namespace caption::plan
