// LLaVA-OneVision compared with transformers in float32, on random checkpoints of its kinds.
#include <doctest/doctest.h>

#include <string>

#include "tests/model/captioner_golden.h"

namespace caption {
namespace {

using testing::CaptionerGolden;

constexpr const char* kFamily = "llava_onevision";
constexpr const char* kCases[] = {"qwen3_f32", "tied_bf16", "shards_f16", "new_names_llama",
                                  "varco_384"};

TEST_SUITE("model/llava_onevision") {
  TEST_CASE("pixels, features, logits and 64 greedy tokens are the reference's") {
    for (const char* const name : kCases) {
      CAPTURE(std::string(name));
      CaptionerGolden(kFamily, name).check_clips();
    }
  }

  TEST_CASE("prompts of both templates are the reference's") {
    for (const char* const name : {"qwen3_f32", "tied_bf16", "new_names_llama"}) {
      CAPTURE(std::string(name));
      CaptionerGolden(kFamily, name).check_prompts();
    }
  }

  TEST_CASE("a plan counts bytes and tokens as they are") {
    for (const char* const name : {"tied_bf16", "shards_f16", "varco_384"}) {
      CAPTURE(std::string(name));
      CaptionerGolden(kFamily, name).check_plan();
    }
  }
}

}  // namespace
}  // namespace caption
