// Each family compared with transformers in float32, on random checkpoints of its kinds.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/model/captioner_golden.h"

namespace caption {
namespace {

using testing::CaptionerGolden;
using Names = std::vector<std::string>;  // names of cases in tests/golden/<family>

// A family's cases, and which of them show what; `all` have pixels, features, logits and tokens.
struct Cases {
  const char* family;
  Names all;
  Names prompts = {};          // one per template and tokenizer
  Names plans = {};            // several formats of files and kinds of towers
  Names fixed_size = {};       // whose frames all have the tower's size
  Names repeated_frames = {};  // whose tower encodes frames one by one
  Names company = {};          // whose clips are encoded together
  Names words = {};            // one per tokenizer
};

struct InternVl {
  static Cases cases() {
    return {.family = "internvl",
            .all = {"vit_300m_f32", "vit_6b_bf16", "shards_f16", "new_names_tied", "chat_300m",
                    "chat_6b", "real_448", "byte_level_qwen3"},
            .prompts = {"vit_300m_f32", "chat_6b", "byte_level_qwen3"},
            .plans = {"vit_6b_bf16", "new_names_tied", "chat_6b"},
            .fixed_size = {"vit_6b_bf16"},
            .repeated_frames = {"chat_6b"},
            .company = {"vit_6b_bf16", "chat_300m"},
            .words = {"byte_level_qwen3", "vit_6b_bf16"}};
  }
};

struct LlavaNextVideo {  // see also parity_test.cpp
  static Cases cases() {
    return {
        .family = "llava_next_video",
        .all = {"vicuna_conv_f32", "yi_bf16", "mistral_f16", "qwen2_chatml", "qwen3_conv_3",
                "real_336", "qwen3_layers"},
        .prompts = {"vicuna_conv_f32", "yi_bf16", "mistral_f16", "qwen2_chatml", "qwen3_conv_3"},
        .plans = {"vicuna_conv_f32", "qwen3_conv_3", "qwen3_layers"},
        .fixed_size = {"qwen3_conv_3"},
        .repeated_frames = {"vicuna_conv_f32"},
        .company = {"qwen3_conv_3", "vicuna_conv_f32"},
        .words = {"yi_bf16"}};
  }
};

struct LlavaOnevision {
  static Cases cases() {
    return {.family = "llava_onevision",
            .all = {"qwen3_f32", "tied_bf16", "shards_f16", "new_names_llama", "qwen2_tied",
                    "real_384", "varco_384", "byte_level_qwen2", "qwen3_layers"},
            .prompts = {"qwen3_f32", "tied_bf16", "new_names_llama", "byte_level_qwen2"},
            .plans = {"tied_bf16", "shards_f16", "varco_384"},
            .fixed_size = {"qwen3_f32"},
            .repeated_frames = {"shards_f16"},
            .company = {"qwen3_f32", "shards_f16"},
            .words = {"byte_level_qwen2", "qwen3_f32"}};
  }
};

struct Qwen25Vl {
  static Cases cases() {
    return {.family = "qwen2_5_vl",
            .all = {"untied_f32", "tied_bf16", "shards_f16", "hub_layout", "new_names",
                    "all_in_windows", "one_window", "almost_seconds", "real_size"},
            .prompts = {"untied_f32", "real_size"},
            .plans = {"tied_bf16", "shards_f16", "hub_layout"},
            .company = {"untied_f32", "all_in_windows"}};
  }
};

struct Qwen3Vl {
  static Cases cases() {
    return {.family = "qwen3_vl",
            .all = {"untied_f32", "tied_bf16", "shards_f16", "no_deepstack", "uneven_sections",
                    "head_80", "real_size"},
            .prompts = {"untied_f32", "real_size"},
            .plans = {"tied_bf16", "shards_f16"},
            .company = {"untied_f32", "head_80"}};
  }
};

// Calls a check of CaptionerGolden on each case.
void check_each(const char* family, const Names& names, void (CaptionerGolden::*check)() const) {
  for (const std::string& name : names) {
    CAPTURE(name);
    (CaptionerGolden(family, name).*check)();
  }
}

#define ALL_FAMILIES InternVl, LlavaNextVideo, LlavaOnevision, Qwen25Vl, Qwen3Vl

TEST_SUITE("model/captioner_families") {
  TEST_CASE_TEMPLATE("pixels, features, logits and 64 greedy tokens are the reference's", Family,
                     ALL_FAMILIES) {
    const Cases cases = Family::cases();
    check_each(cases.family, cases.all, &CaptionerGolden::check_clips);
  }

  TEST_CASE_TEMPLATE("prompts of every template are the reference's", Family, ALL_FAMILIES) {
    const Cases cases = Family::cases();
    check_each(cases.family, cases.prompts, &CaptionerGolden::check_prompts);
  }

  TEST_CASE_TEMPLATE("a plan counts bytes and tokens as they are", Family, ALL_FAMILIES) {
    const Cases cases = Family::cases();
    check_each(cases.family, cases.plans, &CaptionerGolden::check_plan);
  }

  TEST_CASE_TEMPLATE("frames one by one give the bits of all frames at once", Family, InternVl,
                     LlavaNextVideo, LlavaOnevision) {
    const Cases cases = Family::cases();
    check_each(cases.family, cases.fixed_size, &CaptionerGolden::check_frames_alone);
  }

  TEST_CASE_TEMPLATE("frames that repeat are encoded once", Family, InternVl, LlavaNextVideo,
                     LlavaOnevision) {
    const Cases cases = Family::cases();
    check_each(cases.family, cases.repeated_frames, &CaptionerGolden::check_repeated_frames);
  }

  TEST_CASE_TEMPLATE("clips have the same tokens alone and in company, and a plan's scratch",
                     Family, ALL_FAMILIES) {
    const Cases cases = Family::cases();
    check_each(cases.family, cases.company, &CaptionerGolden::check_company);
    check_each(cases.family, cases.company, &CaptionerGolden::check_encoder_scratch);
  }

  TEST_CASE_TEMPLATE("placeholders in a user's words stay text", Family, InternVl, LlavaNextVideo,
                     LlavaOnevision) {
    const Cases cases = Family::cases();
    check_each(cases.family, cases.words, &CaptionerGolden::check_placeholders_as_words);
  }
}

}  // namespace
}  // namespace caption
