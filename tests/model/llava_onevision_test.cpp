// What LLaVA-OneVision refuses; see also captioner_families_test.cpp.
#include <doctest/doctest.h>

#include "tests/model/captioner_golden.h"

namespace caption {
namespace {

using testing::BadCheckpoint;

constexpr const char* kFamily = "llava_onevision";

TEST_SUITE("model/llava_onevision") {
  TEST_CASE("a broken or foreign checkpoint is refused in one sentence") {
    constexpr auto kBad = ErrorCode::kBadModel;
    constexpr auto kUnavailable = ErrorCode::kUnavailable;
    constexpr const char* kConfig = "config.json";
    constexpr const char* kWeights = "model.safetensors";
    const BadCheckpoint kRefusals[] = {
        {"another family", kConfig, "\"llava_onevision\"", "\"florence2\"", kUnavailable,
         "model_type \"florence2\" is not supported by this build; internvl, "},
        {"no vision_config", kConfig, "\"vision_config\"", "\"eyes\"", kBad,
         "vision_config is missing; this is no LLaVA-OneVision checkpoint"},
        {"no text_config", kConfig, "\"text_config\"", "\"words\"", kBad,
         "text_config is missing; this is no LLaVA-OneVision checkpoint"},
        {"images of any size", kConfig, "siglip_vision_model", "siglip2_vision_model", kUnavailable,
         "model_type \"siglip2_vision_model\""},
        {"missing tower", kWeights, "patch_embedding.weight", "patch_embeddinx.weight", kBad,
         "embeddings.patch_embedding.weight is missing (looked for "},
        {"missing layer", kWeights, "encoder.layers.1.mlp.fc2.bias",
         "encoder.layers.1.mlp.fc2.bixs", kBad, "encoder.layers.1.mlp.fc2.bias"},
        {"mismatched projector", kWeights, "multi_modal_projector.linear_1.bias",
         "multi_modal_projector.linear_9.bias", kBad, "linear_1.bias"},
        {"no image_newline", kWeights, "image_newline", "image_newlinx", kBad,
         "image_newline is missing"},
        {"wrong token id", kConfig, "\"video_token_index\": 430", "\"video_token_index\": 431",
         kBad, "its <video> has id 430, config.json's video_token_index is 431"},
        {"wrong token id under the newer key", kConfig, "\"video_token_index\": 430",
         "\"video_token_id\": 431", kBad, "config.json's video_token_id is 431"},
        {"a class token to leave out", kConfig, "\"vision_feature_select_strategy\": \"full\"",
         "\"vision_feature_select_strategy\": \"default\"", kBad,
         "the vision tower has no class token to leave out; it must be full"},
        {"two feature layers", kConfig, "\"vision_feature_layer\": -1",
         "\"vision_feature_layer\": [-2, -1]", kBad,
         "linear_1.weight\" has shape [48, 36]; expected [48, 72]"},
        {"no such feature layer", kConfig, "\"vision_feature_layer\": -1",
         "\"vision_feature_layer\": -9", kBad, "vision_feature_layer -9 does not exist"},
        {"an unknown activation", kConfig, "gelu_pytorch_tanh", "gelu_of_tomorrow", kUnavailable,
         "hidden_act \"gelu_of_tomorrow\" is not supported by this build; gelu, "},
        {"frames of another size", "video_preprocessor_config.json", "\"height\": 46",
         "\"height\": 47", kBad, "frames become 46x47 pixels, the tower takes 46x46"},
        {"no mark of turns", "tokenizer_config.json", "<|im_end|>", "<|im_fin|>", kBad,
         "<|im_end|>"},
    };
    testing::check_refusals(kFamily, "qwen3_f32", kRefusals);
  }
}

}  // namespace
}  // namespace caption
