// config.json: the class defaults, and refusals.
#include "model/internal/config.h"
#include "model/internal/mrope.h"
#include "model/internal/qwen_vl.h"
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
    CHECK(llama.spec.rope.theta == 10000.0);
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

  TEST_CASE("what Mistral's and Qwen2's configurations leave out is their class's default") {
    const TextConfig mistral = model::parse_text_config(parse(R"({"model_type": "mistral"})"));
    CHECK(mistral.spec.intermediate == 14336);
    CHECK(mistral.spec.num_kv_heads == 8);
    CHECK(mistral.spec.head_dim == 128);
    CHECK(mistral.spec.vocab == 32000);
    CHECK(mistral.spec.max_positions == 131072);
    CHECK(mistral.spec.windows == std::vector<std::int64_t>(32, 4096));
    CHECK(mistral.eos_ids == std::vector<std::int32_t>{2});
    CHECK_FALSE(mistral.spec.qkv_bias);

    const TextConfig qwen2 = model::parse_text_config(parse(R"({"model_type": "qwen2"})"));
    CHECK(qwen2.spec.intermediate == 22016);
    CHECK(qwen2.spec.num_kv_heads == 32);
    CHECK(qwen2.spec.head_dim == 128);
    CHECK(qwen2.spec.vocab == 151936);
    CHECK(qwen2.spec.max_positions == 32768);
    CHECK(qwen2.spec.qkv_bias);
    CHECK_FALSE(qwen2.spec.o_bias);
    CHECK_FALSE(qwen2.spec.qk_norm);
    CHECK_FALSE(qwen2.spec.has_window());
    CHECK(qwen2.eos_ids.empty());
  }

  TEST_CASE("biases are those that the family's reference has") {
    struct Case {
      const char* model_type;
      bool asks, qkv, o;
    };
    const Case kCases[] = {{"llama", true, true, true},    {"llama", false, false, false},
                           {"qwen3", true, true, true},    {"qwen3", false, false, false},
                           {"qwen2", true, true, false},   {"qwen2", false, true, false},
                           {"mistral", true, false, false}};
    for (const Case& c : kCases) {
      CAPTURE(std::string(c.model_type));
      CAPTURE(c.asks);
      const model::DecoderSpec spec =
          model::parse_text_config(parse(R"({"model_type": ")" + std::string(c.model_type) +
                                         R"(", "attention_bias": )" +
                                         (c.asks ? "true}" : "false}")))
              .spec;
      CHECK(spec.qkv_bias == c.qkv);
      CHECK(spec.o_bias == c.o);
    }
  }

  TEST_CASE("a window is where the configuration asks for it") {
    using Windows = std::vector<std::int64_t>;
    struct Case {
      const char* text;
      Windows windows;
    };
    const Case kCases[] = {
        {R"({"model_type": "mistral", "num_hidden_layers": 2, "sliding_window": null})", {}},
        {R"({"model_type": "mistral", "num_hidden_layers": 2, "sliding_window": 9})", {9, 9}},
        // A window of all positions is none.
        {R"({"model_type": "mistral", "num_hidden_layers": 2, "max_position_embeddings": 4096})",
         {}},
        {R"({"model_type": "mistral", "num_hidden_layers": 2, "sliding_window": 9,
             "layer_types": ["sliding_attention", "sliding_attention"]})",
         {9, 9}},
        {R"({"model_type": "llama", "num_hidden_layers": 2, "sliding_window": 9})", {}},
        {R"({"model_type": "qwen2", "num_hidden_layers": 3, "sliding_window": 9,
             "max_window_layers": 0})",
         {}},
        {R"({"model_type": "qwen2", "num_hidden_layers": 3, "sliding_window": 9,
             "use_sliding_window": true, "max_window_layers": 1})",
         {0, 9, 9}},
        {R"({"model_type": "qwen2", "num_hidden_layers": 3, "sliding_window": null,
             "use_sliding_window": true, "max_window_layers": 1})",
         {}},
        {R"({"model_type": "qwen3", "num_hidden_layers": 3, "use_sliding_window": true})", {}},
        {R"({"model_type": "qwen3", "num_hidden_layers": 29, "use_sliding_window": true,
             "max_position_embeddings": 5000, "max_window_layers": 0})",
         Windows(29, 4096)},
        {R"({"model_type": "qwen3", "num_hidden_layers": 3, "use_sliding_window": true,
             "sliding_window": 9, "max_window_layers": 3,
             "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]})",
         {9, 0, 9}},
        {R"({"model_type": "qwen3", "num_hidden_layers": 2, "use_sliding_window": true,
             "sliding_window": 9, "max_window_layers": 0,
             "layer_types": ["full_attention", "full_attention"]})",
         {}},
    };
    for (const Case& c : kCases) {
      CAPTURE(std::string(c.text));
      const model::DecoderSpec spec = model::parse_text_config(parse(c.text)).spec;
      CHECK(spec.windows == c.windows);
      CHECK(spec.has_window() == !c.windows.empty());
    }
  }

  TEST_CASE("only a window in every layer bounds what later tokens read") {
    model::DecoderSpec spec;
    spec.num_layers = 3;
    CHECK(spec.window_of_all_layers() == 0);
    CHECK(spec.window_of(2) == 0);
    spec.windows = {8, 9, 7};
    CHECK(spec.window_of_all_layers() == 9);
    CHECK(spec.window_of(2) == 7);
    spec.windows = {8, 0, 7};
    CHECK(spec.window_of_all_layers() == 0);
    CHECK(spec.has_window());
  }

  TEST_CASE("key-value heads of null are as many as the heads, whatever the class default") {
    for (const char* family : {"llama", "mistral", "qwen2", "qwen3"}) {
      CAPTURE(std::string(family));
      const std::string text = R"({"model_type": ")" + std::string(family) +
                               R"(", "num_attention_heads": 16, "num_key_value_heads": null})";
      CHECK(model::parse_text_config(parse(text)).spec.num_kv_heads == 16);
    }
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
      CHECK(config.spec.rope.theta == 5e6);
      CHECK(config.spec.rope.factor == 2.5);
      CHECK(config.spec.max_positions == 10240);
    }
    const TextConfig plain =
        model::parse_text_config(parse(R"({"rope_scaling": null, "rope_parameters": null})"));
    CHECK(plain.spec.rope.kind == model::RopeKind::kDefault);
  }

  TEST_CASE("a rotary embedding has the keys of its kind and bounds the sequences") {
    using model::RopeKind;
    struct Case {
      const char* text;
      RopeKind kind;
      std::int64_t original, max_positions;
    };
    const Case kCases[] = {
        {R"({"rope_scaling": {"rope_type": "default"}, "max_position_embeddings": 100})",
         RopeKind::kDefault, 0, 100},
        // Without a type or a factor nothing is scaled.
        {R"({"rope_scaling": {"mrope_section": [8, 4, 4]}, "max_position_embeddings": 100})",
         RopeKind::kDefault, 0, 100},
        {R"({"rope_parameters": {"rope_theta": 7.0}, "max_position_embeddings": 100})",
         RopeKind::kDefault, 0, 100},
        // The original length is max_position_embeddings, whatever the other key says.
        {R"({"rope_scaling": {"type": "dynamic", "rope_type": "dynamic", "factor": 2.0,
             "original_max_position_embeddings": 50}, "max_position_embeddings": 100})",
         RopeKind::kDynamic, 100, 100},
        {R"({"rope_scaling": {"rope_type": "yarn", "factor": 4}, "max_position_embeddings": 100})",
         RopeKind::kYarn, 100, 400},
        {R"({"rope_scaling": {"rope_type": "yarn", "factor": 4.0,
             "original_max_position_embeddings": 32768}, "max_position_embeddings": 40960})",
         RopeKind::kYarn, 32768, 131072},
        {R"({"rope_scaling": {"rope_type": "yarn", "factor": 2.0,
             "original_max_position_embeddings": 32}, "max_position_embeddings": 100})",
         RopeKind::kYarn, 32, 100},
        {R"({"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
             "high_freq_factor": 4.0, "original_max_position_embeddings": 8192},
             "max_position_embeddings": 131072})",
         RopeKind::kLlama3, 8192, 131072},
    };
    for (const Case& c : kCases) {
      CAPTURE(std::string(c.text));
      const model::DecoderSpec spec = model::parse_text_config(parse(c.text)).spec;
      CHECK(spec.rope.kind == c.kind);
      CHECK(spec.rope.original_max_position == c.original);
      CHECK(spec.max_positions == c.max_positions);
    }
    const model::RopeSpec yarn =
        model::parse_text_config(
            parse(R"({"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 16,
                      "beta_slow": 0, "truncate": false, "attention_factor": 1.5, "mscale": 0.7,
                      "mscale_all_dim": 0.9}})"))
            .spec.rope;
    CHECK(yarn.beta_fast == 16.0);
    CHECK(yarn.beta_slow == 1.0);  // 0 counts as absent
    CHECK_FALSE(yarn.truncate);
    CHECK(yarn.attention_factor == 1.5);
    CHECK(yarn.mscale == 0.7);
    CHECK(yarn.mscale_all_dim == 0.9);
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
    const auto with_layers = [](const std::vector<std::int64_t>& layers) {
      VisionSpec clip = model::parse_clip_vision_config(parse(R"({"num_hidden_layers": 24})"));
      model::set_feature_layers(clip, layers, "config.json");
      return clip;
    };
    CHECK(with_layers({-2}).num_layers == 23);
    CHECK(with_layers({-2}).unused_layers == 1);
    CHECK(with_layers({-2}).feature_layers.empty());
    CHECK(with_layers({-1}).num_layers == 24);
    CHECK(with_layers({0}).num_layers == 0);
    CHECK(with_layers({24}).num_layers == 24);
    CHECK_THROWS_WITH_AS(with_layers({25}),
                         doctest::Contains("config.json: vision_feature_layer 25"), Error);
    CHECK_THROWS_AS(with_layers({-26}), Error);
    CHECK_THROWS_AS(with_layers({}), Error);
    const VisionSpec several = with_layers({-2, 3, -2});
    CHECK(several.num_layers == 23);
    CHECK(several.feature_layers == std::vector<std::int64_t>{23, 3, 23});
    CHECK(several.feature_columns() == 3 * several.hidden);
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
        {R"({"rope_scaling": {"rope_type": "longrope", "factor": 4}})", ErrorCode::kUnavailable,
         "rope type \"longrope\""},
        {R"({"rope_scaling": {"type": "su"}})", ErrorCode::kUnavailable, "rope type \"su\""},
        {R"({"rope_parameters": {"partial_rotary_factor": 0.5}})", ErrorCode::kUnavailable,
         "partial_rotary_factor"},
        {R"({"partial_rotary_factor": 0.5})", ErrorCode::kUnavailable, "partial_rotary_factor"},
        {R"({"rope_scaling": {"factor": 2}})", ErrorCode::kBadModel,
         "rope_type is missing; download the file again, or mend it"},
        {R"({"rope_scaling": {"type": "linear", "rope_type": "yarn", "factor": 2}})",
         ErrorCode::kBadModel, "type is \"linear\" and rope_type is \"yarn\""},
        {R"({"rope_scaling": {"type": "linear"}})", ErrorCode::kBadModel, "factor is missing"},
        {R"({"rope_scaling": {"type": "dynamic", "factor": 0.5}})", ErrorCode::kBadModel,
         "factor must be at least 1"},
        {R"({"rope_scaling": {"type": "dynamic", "factor": 1e17}})", ErrorCode::kBadModel,
         "no frequency is left"},
        {R"({"rope_scaling": {"type": "yarn", "factor": 4, "beta_fast": -1}})",
         ErrorCode::kBadModel, "beta_fast must be greater than 0"},
        {R"({"rope_parameters": {"rope_type": "llama3", "factor": 8}})", ErrorCode::kBadModel,
         "low_freq_factor is missing"},
        {R"({"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1,
             "high_freq_factor": 4}})",
         ErrorCode::kBadModel, "original_max_position_embeddings"},
        {R"({"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4,
             "high_freq_factor": 4, "original_max_position_embeddings": 64}})",
         ErrorCode::kBadModel, "high_freq_factor must be greater"},
        {R"({"model_type": "mistral", "sliding_window": 0})", ErrorCode::kBadModel,
         "sliding_window"},
        {R"({"model_type": "mistral", "num_hidden_layers": 2,
             "layer_types": ["full_attention", "sliding_attention"]})",
         ErrorCode::kUnavailable, "layer_types"},
        {R"({"model_type": "qwen2", "num_hidden_layers": 2, "use_sliding_window": true,
             "layer_types": ["full_attention", "chunked_attention"]})",
         ErrorCode::kUnavailable, "\"chunked_attention\""},
        {R"({"model_type": "qwen3", "num_hidden_layers": 3, "use_sliding_window": true,
             "layer_types": ["full_attention", "sliding_attention"]})",
         ErrorCode::kBadModel, "layer_types names 2 layers, but num_hidden_layers is 3"},
        {R"({"model_type": "qwen2", "num_hidden_layers": 1, "layer_types": ["sliding_attention"]})",
         ErrorCode::kBadModel, "use_sliding_window is false"},
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
        {R"({"rope_theta": 1e39})", ErrorCode::kBadModel, "finite as a 32-bit float"},
        {R"({"rope_scaling": {"type": "linear", "factor": 1e39}})", ErrorCode::kBadModel,
         "factor must be at least 1 and finite as a 32-bit float"},
        {R"({"rope_scaling": {"type": "yarn", "factor": 4, "attention_factor": 1e39}})",
         ErrorCode::kBadModel, "attention_factor"},
        {R"({"rope_scaling": {"type": "yarn", "factor": 4, "attention_factor": 1e-60}})",
         ErrorCode::kBadModel, "attention_factor"},
        {R"({"rope_scaling": {"type": "yarn", "factor": 4, "mscale": -100, "mscale_all_dim": 1}})",
         ErrorCode::kBadModel, "finite and greater than 0"},
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

  TEST_CASE("sections of a rotary embedding are bounded before they are added") {
    const Refusal kCases[] = {
        {R"({"rope_scaling": {"mrope_section": [8, 4]}})", ErrorCode::kBadModel, "three"},
        {R"({"rope_scaling": {"mrope_section": [8, 4, 3]}})", ErrorCode::kBadModel, "sum 16"},
        // The sum is 16 modulo 2^64.
        {R"({"rope_scaling": {"mrope_section":
             [9223372036854775807, 9223372036854775807, 18]}})",
         ErrorCode::kBadModel, "sum 16"},
    };
    for (const Refusal& c : kCases) {
      CAPTURE(std::string(c.text));
      try {
        model::parse_mrope_section(parse(c.text), 32, {8, 4, 4});
        FAIL_CHECK("accepted");
      } catch (const Error& error) {
        CHECK(error.code() == c.code);
        CHECK(std::string(error.what()).find(c.message) != std::string::npos);
      }
    }
  }

  TEST_CASE("the merged width of a Qwen tower is bounded") {
    const auto open = [](const char* text) {
      return model::parse_qwen_tower(
          parse(text),
          {.activation = "silu", .num_layers = 1, .hidden = 64, .intermediate = 64, .patch_px = 4});
    };
    CHECK(open(R"({"hidden_size": 4096, "spatial_merge_size": 64})").hidden == 4096);
    try {
      open(R"({"hidden_size": 4160, "spatial_merge_size": 64})");
      FAIL_CHECK("accepted");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kBadModel);
      CHECK(std::string(error.what()) ==
            "config.json: hidden_size 4160 times the square of spatial_merge_size 64 must be at "
            "most 16777216; download the file again, or mend it");
    }
  }

  TEST_CASE("a vision tower this build cannot run is refused by name") {
    const Refusal kCases[] = {
        {R"({"model_type": "siglip2_vision_model"})", ErrorCode::kUnavailable, "siglip2"},
        {R"({"hidden_act": "mish"})", ErrorCode::kUnavailable, "\"mish\""},
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
}

}  // namespace
}  // namespace caption
