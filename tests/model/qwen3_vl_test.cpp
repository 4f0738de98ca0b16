// Qwen3-VL compared with transformers in float32, on random checkpoints of its kinds.
#include <doctest/doctest.h>

#include <string>

#include "tests/model/captioner_golden.h"

namespace caption {
namespace {

using testing::CaptionerGolden;

constexpr const char* kFamily = "qwen3_vl";
constexpr const char* kCases[] = {"untied_f32",      "tied_bf16", "shards_f16", "no_deepstack",
                                  "uneven_sections", "head_80",   "real_size"};

TEST_SUITE("model/qwen3_vl") {
  TEST_CASE("pixels, features, logits and 64 greedy tokens are the reference's") {
    for (const char* const name : kCases) {
      CAPTURE(std::string(name));
      CaptionerGolden(kFamily, name).check_clips();
    }
  }

  TEST_CASE("prompts are the reference's") {
    for (const char* const name : {"untied_f32", "real_size"}) {
      CAPTURE(std::string(name));
      CaptionerGolden(kFamily, name).check_prompts();
    }
  }

  TEST_CASE("a plan counts bytes and tokens as they are") {
    for (const char* const name : {"tied_bf16", "shards_f16"}) {
      CAPTURE(std::string(name));
      CaptionerGolden(kFamily, name).check_plan();
    }
  }
}

}  // namespace
}  // namespace caption
