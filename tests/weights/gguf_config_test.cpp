// The configurations that GGUF files stand for.
#include "weights/gguf_config.h"

#include <doctest/doctest.h>

#include <fstream>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "tests/weights/gguf_bytes.h"
#include "tests/weights/gguf_goldens.h"
#include "text/token_tables.h"
#include "weights/gguf_source.h"
#include "weights/gguf_tokenizer.h"

namespace caption::weights {
namespace {

// Checks that `found` has the members of `wanted`, numbers as f32.
void check_members(const JsonObject& wanted, const JsonObject& found) {
  for (const std::string& key : wanted.keys()) {
    CAPTURE(key);
    const JsonType type = wanted.type_of(key);
    REQUIRE(found.type_of(key) == type);
    switch (type) {
      case JsonType::kBool: CHECK(found.get_bool(key, false) == wanted.get_bool(key, false)); break;
      case JsonType::kString: CHECK(found.require_string(key) == wanted.require_string(key)); break;
      case JsonType::kNumber:
        CHECK(static_cast<float>(found.get_double(key, 0)) ==
              static_cast<float>(wanted.get_double(key, 0)));
        break;
      case JsonType::kList: CHECK(found.get_doubles(key) == wanted.get_doubles(key)); break;
      case JsonType::kObject: check_members(*wanted.get_object(key), *found.get_object(key)); break;
      case JsonType::kAbsent: break;
    }
  }
}

// A language model without attention heads.
GgufBytes text_bytes() {
  GgufBytes bytes;
  bytes.add_string("general.architecture", "qwen2");
  bytes.add_tensor("token_embd.weight", {3, 8}, GgmlType::kF32, std::string(96, '\0'));
  for (const char* key : {"embedding_length", "feed_forward_length", "context_length"}) {
    bytes.add_u32(std::string("qwen2.") + key, 8);
  }
  bytes.add_u32("qwen2.block_count", 1).add_f32("qwen2.attention.layer_norm_rms_epsilon", 1e-6F);
  return bytes;
}

TEST_SUITE("weights/gguf_config") {
  TEST_CASE("configurations are those of the checkpoints") {
    for (const char* const name : kTextCases) {
      CAPTURE(std::string(name));
      const std::string json = gguf_text_config(GgufFile::open(kGgufModels / name / "text.gguf"));
      CAPTURE(json);
      check_members(*expected_of(name).get_object("config"),
                    JsonObject::parse(json, "config.json", ErrorCode::kBadModel));
    }
    for (const char* const name : kCaptioners) {
      CAPTURE(std::string(name));
      const std::string json =
          gguf_captioner_config(GgufFile::open(kGgufModels / name / "text.gguf"),
                                GgufFile::open(kGgufModels / name / "mmproj.gguf"));
      CAPTURE(json);
      check_members(*expected_of(name).get_object("config"),
                    JsonObject::parse(json, "config.json", ErrorCode::kBadModel));
    }
  }

  TEST_CASE("what this build does not run is refused by key") {
    const auto refusal_of = [](const GgufBytes& bytes, ErrorCode code) {
      return refusal(code, [&] { gguf_text_config(GgufFile::open(written("c.gguf", bytes))); });
    };
    const ErrorCode unavailable = ErrorCode::kUnavailable;
    check_contains(
        refusal_of(text_bytes(), ErrorCode::kBadModel),
        "c.gguf: qwen2.attention.head_count: is missing; download the file again, or convert "
        "the model again");
    const auto text = [&] { return text_bytes().add_u32("qwen2.attention.head_count", 2); };
    CHECK(refusal_of(text(), unavailable) == "");
    check_contains(
        refusal_of(text().add_u32("qwen2.expert_count", 8), unavailable),
        "qwen2.expert_count: mixtures of experts are not supported by this build; run a dense");
    check_contains(refusal_of(text().add_u32("qwen2.rope.dimension_count", 2), unavailable),
                   "qwen2.rope.dimension_count is 2, that of a head 4");
    check_contains(refusal_of(text().add_u32("qwen2.attention.value_length", 2), unavailable),
                   "another width of the values");
    check_contains(
        refusal_of(text().add_string("qwen2.rope.scaling.type", "longrope"), unavailable),
        "qwen2.rope.scaling.type \"longrope\" is not supported");
    check_contains(refusal_of(text().add_u32("qwen2.attention.sliding_window", 2), unavailable),
                   "qwen2.attention.sliding_window is not supported");
    check_contains(refusal_of(GgufBytes().add_string("general.architecture", "bert"), unavailable),
                   "\"bert\" is no language model of this build");
  }

  TEST_CASE("divisors of rotary frequencies are the scaling of Llama 3.1") {
    // Those that convert_hf_to_gguf.py computes for a head of 8 numbers and theta 500000; without
    // a scaling they are 1.
    constexpr float kDivisors[] = {1.0F, 1.0F, 2.69453F, 8.0F};
    const auto config_of = [](std::span<const float> divisors) {
      GgufBytes bytes;
      bytes.add_string("general.architecture", "llama");
      bytes.add_tensor("token_embd.weight", {3, 8}, GgmlType::kF32, std::string(96, '\0'));
      std::string numbers;
      for (const float divisor : divisors) numbers += bytes_of(divisor);
      bytes.add_tensor("rope_freqs.weight", {divisors.size()}, GgmlType::kF32, numbers);
      for (const char* key :
           {"embedding_length", "feed_forward_length", "context_length", "attention.key_length"}) {
        bytes.add_u32(std::string("llama.") + key, 8);
      }
      bytes.add_u32("llama.block_count", 1)
          .add_f32("llama.attention.layer_norm_rms_epsilon", 1e-6F);
      bytes.add_u32("llama.attention.head_count", 1).add_f32("llama.rope.freq_base", 500000);
      return gguf_text_config(GgufFile::open(written("rope.gguf", bytes)));
    };
    CHECK(config_of(kDivisors).find(
              R"("rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":1,)"
              R"("high_freq_factor":4,"original_max_position_embeddings":8192})") !=
          std::string::npos);
    constexpr float kNone[] = {1, 1, 1, 1};
    CHECK(config_of(kNone).find("rope_scaling") == std::string::npos);
    constexpr float kOther[] = {1, 1, 2, 8};
    check_contains(refusal(ErrorCode::kUnavailable, [&] { config_of(kOther); }),
                   "tensor \"rope_freqs.weight\": number 2 is 2, that of Llama 3.1's scaling 2.69");
    constexpr float kShort[] = {1, 1, 2};
    check_contains(refusal(ErrorCode::kBadModel, [&] { config_of(kShort); }),
                   "expected 4 F32 numbers, half the width of a head");
  }

  TEST_CASE("preprocessing is that of the metadata, and of the published models") {
    const auto config_of = [](const GgufBytes& bytes) {
      return JsonObject::parse(gguf_preprocessor_config(GgufFile::open(written("p.gguf", bytes))),
                               "p", ErrorCode::kBadModel);
    };
    const auto tower = [](const char* projector) {
      GgufBytes bytes;
      bytes.add_string("general.architecture", "clip").add_string("clip.projector_type", projector);
      bytes.add_u32("clip.vision.image_size", 28).add_u32("clip.vision.patch_size", 7);
      bytes.add("clip.vision.image_mean", GgufType::kArray,
                gguf_array(GgufType::kF32, 3, bytes_of(0.5F) + bytes_of(0.25F) + bytes_of(0.125F)));
      return bytes;
    };
    const JsonObject clip = config_of(tower("mlp"));
    CHECK(clip.get_object("size")->require_int("shortest_edge", 0, 99) == 28);
    CHECK(clip.get_object("crop_size")->require_int("width", 0, 99) == 28);
    CHECK(clip.get_bool("do_center_crop", false));
    CHECK(clip.get_doubles("image_mean") == std::vector<double>{0.5, 0.25, 0.125});
    CHECK(!clip.has("image_std"));
    const JsonObject intern = config_of(tower("internvl"));
    CHECK(intern.get_object("size")->require_int("height", 0, 99) == 28);
    CHECK(!intern.get_bool("do_center_crop", true));
    const JsonObject qwen3 = config_of(tower("qwen3vl_merger"));
    CHECK(qwen3.get_object("size")->require_int("longest_edge", 0, 1 << 30) == 25165824);
    CHECK(qwen3.require_int("patch_size", 0, 99) == 7);
    const JsonObject qwen2 = config_of(tower("qwen2.5vl_merger"));
    CHECK(qwen2.require_int("min_pixels", 0, 1 << 30) == 3136);
    CHECK(qwen2.require_int("max_pixels", 0, 1 << 30) == 12845056);
    CHECK(config_of(tower("qwen2.5vl_merger").add_u32("clip.vision.image_max_pixels", 5000))
              .require_int("max_pixels", 0, 1 << 30) == 5000);
  }

  TEST_CASE("mutated files give a configuration or an error, and never crash") {
    const std::string text = read_text_file(kGgufModels / "qwen3_vl" / "text.gguf");
    const std::string tower = read_text_file(kGgufModels / "qwen3_vl" / "mmproj.gguf");
    const fs::path folder = fs::path(CAPTION_TEST_TMP) / "gguf_mutated";
    fs::create_directories(folder);
    std::mt19937 rng(15);
    constexpr std::size_t kHeaderBytes = 3000;  // keys and descriptions of tensors
    int num_refused = 0;
    for (int round = 0; round < 2000; ++round) {
      std::string bytes = round % 2 == 0 ? text : tower;
      for (auto flips = 1 + rng() % 3; flips-- > 0;) {
        bytes[rng() % kHeaderBytes] = static_cast<char>(rng() % 4 == 0 ? 0xFF : rng());
      }
      const fs::path mutated = folder / "mutated.gguf";
      std::ofstream(mutated, std::ios::binary) << bytes;
      try {
        const auto file = std::make_shared<const GgufFile>(GgufFile::open(mutated));
        const GgufSource source(file, "model.language_model.");
        const GgufFile other = GgufFile::open(kGgufModels / "qwen3_vl" /
                                              (round % 2 == 0 ? "mmproj.gguf" : "text.gguf"));
        const bool is_text = round % 2 == 0;
        gguf_captioner_config(is_text ? *file : other, is_text ? other : *file);
        if (!is_text) gguf_preprocessor_config(*file);
        if (is_text) text::make_tokenizer(gguf_token_tables(file->metadata()));
      } catch (const Error& error) {
        ++num_refused;
        const bool is_refusal =
            error.code() == ErrorCode::kBadModel || error.code() == ErrorCode::kUnavailable;
        CHECK(is_refusal);
      }
    }
    CHECK(num_refused > 500);
  }

  TEST_CASE("a tower of another model is refused") {
    const auto captioner = [](const char* text, const char* tower) {
      return refusal(ErrorCode::kBadModel, [&] {
        gguf_captioner_config(GgufFile::open(kGgufModels / text / "text.gguf"),
                              GgufFile::open(kGgufModels / tower / "mmproj.gguf"));
      });
    };
    check_contains(captioner("qwen2_5_vl", "qwen3_vl"), "is the tower of another model");
    check_contains(captioner("qwen3_vl", "qwen2_5_vl"), "is the tower of another model");
    check_contains(refusal(ErrorCode::kBadModel,
                           [] {
                             const GgufFile text =
                                 GgufFile::open(kGgufModels / "llama" / "text.gguf");
                             gguf_captioner_config(text, text);
                           }),
                   "expected clip, a vision tower with its projector");
  }
}

}  // namespace
}  // namespace caption::weights
