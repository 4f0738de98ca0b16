// LLaVA-NeXT-Video compared with transformers in float32, on random checkpoints of its kinds; see
// also parity_test.cpp.
#include <doctest/doctest.h>

#include <string>

#include "tests/model/captioner_golden.h"

namespace caption {
namespace {

using testing::CaptionerGolden;

constexpr const char* kFamily = "llava_next_video";
constexpr const char* kCases[] = {"vicuna_conv_f32", "yi_bf16",      "mistral_f16",
                                  "qwen2_chatml",    "qwen3_conv_3", "real_336"};

TEST_SUITE("model/llava_next_video") {
  TEST_CASE("pixels, features, logits and 64 greedy tokens are the reference's") {
    for (const char* const name : kCases) {
      CAPTURE(std::string(name));
      CaptionerGolden(kFamily, name).check_clips();
    }
  }

  TEST_CASE("prompts of every template are the reference's") {
    for (const char* const name :
         {"vicuna_conv_f32", "yi_bf16", "mistral_f16", "qwen2_chatml", "qwen3_conv_3"}) {
      CAPTURE(std::string(name));
      CaptionerGolden(kFamily, name).check_prompts();
    }
  }

  TEST_CASE("a plan counts bytes and tokens as they are") {
    for (const char* const name : {"vicuna_conv_f32", "qwen3_conv_3"}) {
      CAPTURE(std::string(name));
      CaptionerGolden(kFamily, name).check_plan();
    }
  }

  TEST_CASE("frames one by one give the bits of all frames at once") {
    CaptionerGolden(kFamily, "qwen3_conv_3").check_frames_alone();
  }

  TEST_CASE("frames that repeat are encoded once") {
    CaptionerGolden(kFamily, "vicuna_conv_f32").check_repeated_frames();
  }

  TEST_CASE("placeholders in a user's words stay text") {
    CaptionerGolden(kFamily, "yi_bf16").check_placeholders_as_words();
  }
}

}  // namespace
}  // namespace caption
