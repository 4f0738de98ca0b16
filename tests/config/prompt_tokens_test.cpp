// Tests what a prompt's tokens are counted for, and which part of a conversation is refused.
#include "config/prompt_tokens.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "base/error.h"
#include "tests/support/drawn_checkpoint.h"

namespace caption::config {
namespace {

std::unique_ptr<model::CaptionModel> open(const std::filesystem::path& folder) {
  return model::open_model({}, folder, weights::WeightFormat::kF32);
}

std::filesystem::path golden(const char* name) {
  return std::filesystem::path(CAPTION_SOURCE_DIR) / "tests/golden" / name;
}

TEST_SUITE("config/prompt_tokens") {
  TEST_CASE("the parts add up to the prompt, and each counts what it adds") {
    const testing::DrawnCheckpoint checkpoint(golden("internvl/vit_300m_f32"));
    const auto model = open(checkpoint.path());
    const model::ClipShape clip = {.num_frames = 3};
    const model::Conversation plain = {.prompt = "무엇?"};
    const PromptTokens alone = count_prompt_tokens(*model, plain, clip);
    CHECK(alone.vision == model->vision_tokens(clip));
    CHECK(alone.total() == std::ssize(model->build_prompt(plain, clip).ids));
    CHECK(alone.system == 0);
    CHECK(alone.examples == 0);

    model::Conversation led = plain;
    led.system = "짧게 말한다.";
    led.examples = {{.prompt = "왜?", .caption = "비가 온다."},
                    {.clip = clip, .prompt = "무엇?", .caption = "다리가 보인다."}};
    const PromptTokens with_lead = count_prompt_tokens(*model, led, clip);
    CHECK(with_lead.total() == std::ssize(model->build_prompt(led, clip).ids));
    CHECK(with_lead.vision == alone.vision);
    CHECK(with_lead.question == alone.question);
    CHECK(with_lead.system > 0);
    CHECK(with_lead.examples > model->vision_tokens(clip));
  }

  TEST_CASE("an example whose frames the model cannot take is named, with the reason") {
    const testing::DrawnCheckpoint checkpoint(golden("qwen3_vl/untied_f32"));
    const auto model = open(checkpoint.path());
    const model::ClipShape clip = {.num_frames = 2, .frame = {.width_px = 64, .height_px = 64}};
    model::ClipShape thin = clip;
    thin.frame = {.width_px = 4000, .height_px = 10};
    model::Conversation conversation = {.prompt = "무엇?"};
    conversation.examples = {{.prompt = "왜?", .caption = "비가 온다."},
                             {.clip = thin, .prompt = "무엇?", .caption = "선이 보인다."}};
    try {
      count_prompt_tokens(*model, conversation, clip);
      FAIL_CHECK("accepted");
    } catch (const Error& error) {
      CHECK(error_code_name(error.code()) == error_code_name(ErrorCode::kBadPreset));
      const std::string message = error.what();
      CHECK(message.starts_with("example 2: its video cannot be shown: a frame of 4000x10 pixels"));
    }
  }
}

}  // namespace
}  // namespace caption::config
