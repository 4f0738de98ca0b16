// InternVL compared with transformers in float32, on random checkpoints of its kinds.
#include <doctest/doctest.h>

#include <string>

#include "tests/model/captioner_golden.h"

namespace caption {
namespace {

using testing::CaptionerGolden;

constexpr const char* kFamily = "internvl";
constexpr const char* kCases[] = {"vit_300m_f32", "vit_6b_bf16", "new_names_tied", "chat_6b",
                                  "real_448"};

TEST_SUITE("model/internvl") {
  TEST_CASE("pixels, features, logits and 64 greedy tokens are the reference's") {
    for (const char* const name : kCases) {
      CAPTURE(std::string(name));
      CaptionerGolden(kFamily, name).check_clips();
    }
  }

  TEST_CASE("prompts are the reference's") {
    for (const char* const name : {"vit_300m_f32", "chat_6b"}) {
      CAPTURE(std::string(name));
      CaptionerGolden(kFamily, name).check_prompts();
    }
  }

  TEST_CASE("a plan counts bytes and tokens as they are") {
    for (const char* const name : {"vit_6b_bf16", "new_names_tied", "chat_6b"}) {
      CAPTURE(std::string(name));
      CaptionerGolden(kFamily, name).check_plan();
    }
  }
}

}  // namespace
}  // namespace caption
