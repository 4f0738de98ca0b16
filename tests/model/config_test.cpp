// config.json: the class defaults, and refusals.
#include "model/internal/config.h"
#include "model/internal/vision_config.h"

#include <doctest/doctest.h>

#include <string>

namespace caption {
namespace {

using model::TextConfig;
using model::VisionSpec;

JsonObject parse(std::string_view text) {
  return JsonObject::parse(text, "config.json", ErrorCode::kBadModel);
}

TEST_SUITE("model/config") {
  TEST_CASE("what a decoder's configuration leaves out is its class's default") {
    const TextConfig llama = model::parse_text_config(parse(R"({"model_type": "llama"})"));
    CHECK(llama.spec.hidden == 4096);
    CHECK(llama.spec.intermediate == 11008);
    CHECK(llama.spec.num_layers == 32);
    CHECK(llama.spec.num_kv_heads == 32);
    CHECK(llama.spec.head_dim == 128);
    CHECK(llama.spec.vocab == 32000);
    CHECK(llama.spec.max_positions == 2048);
    CHECK(llama.spec.rms_norm_eps == 1e-6F);
    CHECK(llama.spec.rope_theta == 10000.0);
    CHECK(llama.eos_ids == std::vector<std::int32_t>{2});
    CHECK_FALSE(llama.spec.qk_norm);
    CHECK_FALSE(llama.spec.tied_embeddings);

    const TextConfig qwen3 = model::parse_text_config(
        parse(R"({"model_type": "qwen3", "hidden_size": 1024, "num_attention_heads": 16,
 "num_key_value_heads": 8})"));
    CHECK(qwen3.spec.head_dim == 128);  // differs from hidden / heads
    CHECK(qwen3.spec.vocab == 151936);
    CHECK(qwen3.spec.max_positions == 32768);
    CHECK(qwen3.spec.qk_norm);
    CHECK(qwen3.eos_ids.empty());
  }

  TEST_CASE("key-value heads default to the heads, head_dim to their share of the width") {
    const TextConfig text =
        model::parse_text_config(parse(R"({"hidden_size": 96, "num_attention_heads": 6})"));
    CHECK(text.spec.num_kv_heads == 6);
    CHECK(text.spec.head_dim == 16);
  }

  TEST_CASE("both ways to write the rotary embedding mean the same") {
    const char* const kTexts[] = {
        R"({"rope_theta": 5e6, "rope_scaling": {"type": "linear", "factor": 2.5},
            "max_position_embeddings": 4096})",
        R"({"rope_theta": 5e6, "rope_scaling": {"rope_type": "linear", "factor": 2.5},
            "max_position_embeddings": 4096})",
        R"({"rope_parameters": {"rope_type": "linear", "rope_theta": 5e6, "factor": 2.5},
            "max_position_embeddings": 4096})",
        // Keys that one converter writes outside rope_scaling have no meaning.
        R"({"rope_theta": 5e6, "rope_scaling": {"type": "linear", "factor": 2.5}, "factor": 9,
            "type": "yarn", "max_position_embeddings": 4096})",
    };
    for (const char* text : kTexts) {
      CAPTURE(std::string(text));
      const TextConfig config = model::parse_text_config(parse(text));
      CHECK(config.spec.rope_theta == 5e6);
      CHECK(config.spec.rope_factor == 2.5);
      CHECK(config.spec.max_positions == 10240);
    }
    const TextConfig plain =
        model::parse_text_config(parse(R"({"rope_scaling": null, "rope_parameters": null})"));
    CHECK(plain.spec.rope_factor == 1.0);
  }

  TEST_CASE("tied embeddings are the decoder's own word; without it they are not tied") {
    CHECK(model::parse_text_config(parse(R"({"tie_word_embeddings": true})")).spec.tied_embeddings);
    CHECK_FALSE(
        model::parse_text_config(parse(R"({"tie_word_embeddings": false})")).spec.tied_embeddings);
    CHECK_FALSE(model::parse_text_config(parse("{}")).spec.tied_embeddings);
    CHECK_FALSE(model::parse_text_config(parse(R"({"model_type": "qwen3"})")).spec.tied_embeddings);
  }

  TEST_CASE("what a vision tower's configuration leaves out is its class's default") {
    const VisionSpec clip = model::parse_clip_vision_config(parse("{}"));
    CHECK(clip.hidden == 768);
    CHECK(clip.intermediate == 3072);
    CHECK(clip.num_layers == 12);
    CHECK(clip.image_px == 224);
    CHECK(clip.patch_px == 32);
    CHECK(clip.layer_norm_eps == 1e-5F);
    CHECK(clip.activation == model::Activation::kQuickGelu);
    CHECK(clip.num_positions == 50);
    const VisionSpec siglip = model::parse_tower_config(parse(R"({"model_type": "siglip"})"));
    CHECK(siglip.patch_px == 16);
    CHECK(siglip.layer_norm_eps == 1e-6F);
    CHECK(siglip.activation == model::Activation::kGeluTanh);
    CHECK(siglip.class_tokens == 0);
    CHECK(siglip.num_positions == 196);
    CHECK(siglip.vit.patch_bias);
    CHECK_FALSE(siglip.vit.pre_norm);
  }

  TEST_CASE("a hidden state is counted from either end") {
    VisionSpec clip = model::parse_clip_vision_config(parse(R"({"num_hidden_layers": 24})"));
    CHECK(model::layers_to_run(clip, -2) == 23);
    CHECK(model::layers_to_run(clip, -1) == 24);
    CHECK(model::layers_to_run(clip, 0) == 0);
    CHECK(model::layers_to_run(clip, 24) == 24);
    CHECK_THROWS_WITH_AS(model::layers_to_run(clip, 25), doctest::Contains("24 layers"), Error);
    CHECK_THROWS_AS(model::layers_to_run(clip, -26), Error);
  }

  struct Refusal {
    const char* text;
    ErrorCode code;
    const char* message;
  };

  TEST_CASE("a decoder this build cannot run is refused by name") {
    const Refusal kCases[] = {
        {R"({"model_type": "mamba"})", ErrorCode::kUnavailable, "\"mamba\""},
        {R"({"hidden_act": "gelu"})", ErrorCode::kUnavailable, "hidden_act \"gelu\""},
        {R"({"rope_scaling": {"rope_type": "yarn", "factor": 4}})", ErrorCode::kUnavailable,
         "rope type \"yarn\""},
        {R"({"rope_parameters": {"rope_type": "llama3"}})", ErrorCode::kUnavailable, "llama3"},
        {R"({"rope_parameters": {"partial_rotary_factor": 0.5}})", ErrorCode::kUnavailable,
         "partial_rotary_factor"},
        {R"({"model_type": "qwen3", "use_sliding_window": true})", ErrorCode::kUnavailable,
         "use_sliding_window"},
        {R"({"num_attention_heads": 6, "num_key_value_heads": 4, "hidden_size": 96})",
         ErrorCode::kBadModel, "no multiple of 4 key-value heads"},
        {R"({"hidden_size": 100, "num_attention_heads": 6})", ErrorCode::kBadModel, "no multiple"},
        {R"({"head_dim": 15})", ErrorCode::kBadModel, "odd"},
        {R"({"hidden_size": 0})", ErrorCode::kBadModel, "hidden_size"},
        {R"({"num_hidden_layers": 1000000})", ErrorCode::kBadModel, "num_hidden_layers"},
        {R"({"vocab_size": "many"})", ErrorCode::kBadModel, "vocab_size"},
        {R"({"rms_norm_eps": 0})", ErrorCode::kBadModel, "rms_norm_eps"},
        {R"({"rope_theta": 0.5})", ErrorCode::kBadModel, "rope_theta"},
        {R"({"rope_scaling": {"type": "linear", "factor": 0}})", ErrorCode::kBadModel, "factor"},
        {R"({"eos_token_id": [-3]})", ErrorCode::kBadModel, "eos_token_id"},
    };
    for (const Refusal& c : kCases) {
      CAPTURE(std::string(c.text));
      try {
        model::parse_text_config(parse(c.text));
        FAIL_CHECK("accepted");
      } catch (const Error& error) {
        CAPTURE(std::string(error.what()));
        CHECK(error.code() == c.code);
        CHECK(std::string(error.what()).find(c.message) != std::string::npos);
        CHECK(std::string(error.what()).find("config.json") == 0);
      }
    }
  }

  TEST_CASE("a vision tower this build cannot run is refused by name") {
    const Refusal kCases[] = {
        {R"({"model_type": "siglip2_vision_model"})", ErrorCode::kUnavailable, "siglip2"},
        {R"({"hidden_act": "relu"})", ErrorCode::kUnavailable, "\"relu\""},
        {R"({"num_channels": 1})", ErrorCode::kUnavailable, "num_channels"},
        {R"({"hidden_size": 100})", ErrorCode::kBadModel, "no multiple of 12"},
        {R"({"image_size": 14, "patch_size": 28})", ErrorCode::kBadModel, "exceeds"},
    };
    for (const Refusal& c : kCases) {
      CAPTURE(std::string(c.text));
      try {
        model::parse_vision_config(parse(c.text), "clip_vision_model");
        FAIL_CHECK("accepted");
      } catch (const Error& error) {
        CAPTURE(std::string(error.what()));
        CHECK(error.code() == c.code);
        CHECK(std::string(error.what()).find(c.message) != std::string::npos);
      }
    }
  }

  TEST_CASE("quantised weights are refused with their method's name") {
    CHECK_NOTHROW(model::reject_quantised(parse("{}")));
    CHECK_THROWS_WITH_AS(
        model::reject_quantised(parse(R"({"quantization_config": {"quant_method": "awq"}})")),
        doctest::Contains("\"awq\""), Error);
  }
}

}  // namespace
}  // namespace caption
