// What InternVL refuses; see also captioner_families_test.cpp.
#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "tests/model/captioner_golden.h"
#include "tests/model/support.h"

namespace caption {
namespace {

using testing::BadCheckpoint;

constexpr const char* kFamily = "internvl";

TEST_SUITE("model/internvl") {
  constexpr auto kBad = ErrorCode::kBadModel;
  constexpr auto kUnavailable = ErrorCode::kUnavailable;
  constexpr const char* kConfig = "config.json";
  constexpr const char* kWeights = "model.safetensors";

  TEST_CASE("a broken or foreign checkpoint is refused in one sentence") {
    const BadCheckpoint kRefusals[] = {
        {"no vision_config", kConfig, "\"vision_config\"", "\"eyes\"", kBad,
         "vision_config is missing; this is no InternVL checkpoint"},
        {"missing tower", kWeights, "embeddings.cls_token", "embeddings.cls_tokex", kBad,
         "embeddings.cls_token is missing (looked for model.vision_tower.embeddings.cls_token, "},
        {"missing layer scale", kWeights, "layer.1.lambda_2", "layer.1.lambda_3", kBad, "lambda_2"},
        {"mismatched projector", kConfig, "\"downsample_ratio\": 0.5", "\"downsample_ratio\": 0.25",
         kBad, "multi_modal_projector.layer_norm.weight"},
        {"a rest of the grid", kConfig, "\"downsample_ratio\": 0.5",
         "\"downsample_ratio\": 0.3333333333333333", kBad,
         "pixel shuffle by 3 does not divide the tower's grid of 4x4"},
        {"no whole stride", kConfig, "\"downsample_ratio\": 0.5", "\"downsample_ratio\": 0.4", kBad,
         "downsample_ratio must be 1 / n for a whole number n"},
        {"wrong token id", kConfig, "\"image_token_id\": 436", "\"image_token_id\": 435", kBad,
         "its <IMG_CONTEXT> has id 436, config.json's image_token_id is 435"},
        {"no mark of images", "tokenizer_config.json", "</img>", "</imx>", kBad, "no token </img>"},
        {"the class token kept", kConfig, "\"vision_feature_select_strategy\": \"default\"",
         "\"vision_feature_select_strategy\": \"full\"", kUnavailable,
         "vision_feature_select_strategy \"full\""},
        {"another feature layer", kConfig, "\"vision_feature_layer\": -1",
         "\"vision_feature_layer\": -2", kUnavailable, "only -1, the last layer"},
        {"a norm after the last layer", kConfig, "\"use_mean_pooling\": true",
         "\"use_mean_pooling\": false", kUnavailable, "use_mean_pooling"},
        {"another norm", kConfig, "\"layer_norm\"", "\"batch_norm\"", kUnavailable,
         "norm_type \"batch_norm\" is not supported by this build"},
        {"no square", kConfig, "\"patch_size\": [", "\"patch_size\": [7, ", kBad, "patch_size"},
        {"an infinite epsilon", kConfig, "\"layer_norm_eps\": 1e-06", "\"layer_norm_eps\": 1e+39",
         kBad, "layer_norm_eps must be in (0, 1], found "},
        {"experts", kConfig, "\"model_type\": \"qwen3\"", "\"model_type\": \"qwen3_moe\"",
         kUnavailable, "qwen3_moe"},
    };
    testing::check_refusals(kFamily, "vit_300m_f32", kRefusals);
  }

  TEST_CASE("so is an internvl_chat repository") {
    const BadCheckpoint kRefusals[] = {
        {"the first pixel shuffle", kConfig, "\"ps_version\": \"v2\"", "\"ps_version\": \"v1\"",
         kUnavailable, "ps_version: only v2"},
        {"another size", kConfig, "\"force_image_size\": 56", "\"force_image_size\": 28",
         kUnavailable, "force_image_size differs from the tower's image_size"},
        {"another layer", kConfig, "\"select_layer\": -1", "\"select_layer\": -3", kUnavailable,
         "select_layer: only -1"},
        {"no llm_config", kConfig, "\"llm_config\"", "\"words\"", kBad, "llm_config is missing"},
        {"missing projection", kWeights, "encoder.layers.1.attn.qkv", "encoder.layers.1.attn.qkx",
         kBad, "attn.qkv.weight"},
    };
    testing::check_refusals(kFamily, "chat_6b", kRefusals);
  }

  // As transformers 5 saves a folder of InternVL3.5, whose configuration for videos does not fit.
  TEST_CASE("the processor of images decides inside processor_config.json, too") {
    const testing::CaptionerGolden golden(kFamily, "vit_300m_f32");
    const vision::PreprocessSpec wanted = golden.open()->preprocess_spec();
    const auto take = [&](const char* name) {
      const std::string text = read_text_file(golden.folder() / name);
      std::filesystem::remove(golden.folder() / name);
      return text;
    };
    std::ofstream(golden.folder() / "processor_config.json")
        << "{\"image_processor\": " << take("preprocessor_config.json")
        << ", \"video_processor\": " << take("video_preprocessor_config.json") << "}";
    CHECK(golden.open()->preprocess_spec() == wanted);
  }

  // Their configurations name <|endoftext|>, the end of the language model's texts, as the end.
  TEST_CASE("captions of an internvl_chat repository end where their turn does") {
    const testing::CaptionerGolden golden(kFamily, "chat_300m");
    const auto model = golden.open();
    const std::int32_t end_of_turn = model->tokenizer().find_token("<|im_end|>").value();
    CHECK(model->eos_ids() == std::vector<std::int32_t>{end_of_turn, 2});
    testing::replace_in_file(golden.folder() / kConfig, "\"eos_token_id\": 2",
                             "\"eos_token_id\": " + std::to_string(end_of_turn));
    CHECK(golden.open()->eos_ids() == std::vector<std::int32_t>{end_of_turn});
  }
}

}  // namespace
}  // namespace caption
