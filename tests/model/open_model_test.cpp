// Opening models: equivalent layouts, identities, and all refusals.
#include <doctest/doctest.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "kernels/weight.h"
#include "tests/model/support.h"

namespace caption {
namespace {

namespace fs = std::filesystem;
using namespace testing;
using weights::WeightFormat;

constexpr const char* kWeights = "model.safetensors";

// Returns the logits of a short text, which identify what a model computes.
std::vector<float> fingerprint(model::CaptionModel& model) {
  ThreadPool pool(1);
  Stream stream(testing::tested_context(), pool);
  const model::PromptIds prompt = {.ids = {1, 40, 50, 60}, .vision_positions = {}};
  Sequence sequence(model.decoder(), DType::kF32, 4);
  const Tensor logits = sequence.prefill(stream, prompt, ConstView{}, 4);
  const std::span<const float> row = row_of(logits, 3);
  return {row.begin(), row.end()};
}

std::vector<float> fingerprint_of(const fs::path& folder) {
  return fingerprint(*model::open_model(testing::tested_context(), folder, WeightFormat::kF32));
}

// What the call throws with ErrorCode::kCancelled.
std::string interruption(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kCancelled);
    return error.what();
  }
  FAIL_CHECK("was not cancelled");
  return "";
}

TEST_SUITE("model/open_model") {
  TEST_CASE("opening a model and hashing it end when they are cancelled") {
    const fs::path folder = golden_folder() / "llama_bf16";
    std::atomic<bool> cancelled = true;
    for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kBF16}) {
      cancelled = true;
      const auto open = [&] {
        return model::open_model(testing::tested_context(), folder, format,
                                 {.cancelled = &cancelled});
      };
      CHECK(interruption([&] { open(); }).find("while its weights were loaded") !=
            std::string::npos);
      cancelled = false;
      const auto opened = open();
      cancelled = true;
      CHECK(interruption([&] { opened->content_hash(); }).find("while it was read") !=
            std::string::npos);
    }
  }

  TEST_CASE("configurations of other versions of transformers open the same model") {
    const std::vector<float> expected = fingerprint(*open_case("llama_bf16"));
    SUBCASE("rope_parameters instead of rope_theta and rope_scaling") {
      const fs::path folder = copy_checkpoint("llama_bf16", "rope_parameters");
      replace_in_file(folder / "config.json", "\"rope_theta\": 10000.0",
                      "\"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 2.5, "
                      "\"rope_theta\": 10000.0}");
      replace_in_file(folder / "config.json", "\"rope_scaling\"", "\"was_rope_scaling\"");
      CHECK(fingerprint_of(folder) == expected);
    }
    SUBCASE("video_token_id instead of video_token_index") {
      const fs::path folder = copy_checkpoint("llama_bf16", "video_token_id");
      replace_in_file(folder / "config.json", "video_token_index", "video_token_id");
      CHECK(fingerprint_of(folder) == expected);
    }
    SUBCASE("the marks of a demonstration model") {
      const fs::path folder = copy_checkpoint("llama_bf16", "demonstration");
      const auto plain = model::open_model(testing::tested_context(), folder, WeightFormat::kF32);
      CHECK_FALSE(plain->is_demonstration());
      CHECK(plain->unlike_sentence().empty());
      replace_in_file(folder / "config.json", "\"video_token_index\"",
                      "\"caption_cli_unlike\": \"모릅니다.\", \"video_token_index\"");
      // It has an effect only together with caption_cli_demonstration.
      CHECK(model::open_model(testing::tested_context(), folder, WeightFormat::kF32)
                ->unlike_sentence()
                .empty());
      replace_in_file(folder / "config.json", "\"video_token_index\"",
                      "\"caption_cli_demonstration\": true, \"video_token_index\"");
      const auto marked = model::open_model(testing::tested_context(), folder, WeightFormat::kF32);
      CHECK(marked->is_demonstration());
      CHECK(marked->unlike_sentence() == "모릅니다.");
      CHECK(fingerprint(*marked) == expected);
    }
    SUBCASE("the vision tower without its inner level") {
      // "model.vision_tower.vision_model.x" -> "model.vision_tower.x", padded to the same length.
      const fs::path folder = copy_checkpoint("llama_bf16", "flat_tower");
      replace_in_file(folder / kWeights, "\"model.vision_tower.vision_model.",
                      "             \"model.vision_tower.");
      CHECK(fingerprint_of(folder) == expected);
    }
  }

  TEST_CASE("the decoder's own configuration decides whether the head is the embedding") {
    // As transformers 4.57.6 does: get_text_config(decoder=True).tie_word_embeddings.
    constexpr const char* kConfig = "config.json";
    const std::vector<float> stored = fingerprint(*open_case("llama_bf16"));
    const fs::path outer = copy_checkpoint("llama_bf16", "tied_outer");
    replace_in_file(outer / kConfig, "\"tie_word_embeddings\": false",
                    "\"tie_word_embeddings\": true");
    CHECK(fingerprint_of(outer) == stored);

    const fs::path inner = copy_checkpoint("llama_bf16", "tied_inner");
    replace_in_file(inner / kConfig, "\"text_config\": {",
                    "\"text_config\": {\"tie_word_embeddings\": true,");
    const std::vector<float> tied = fingerprint_of(inner);
    CHECK(tied != stored);

    // Without a stored head, the embedding must be used.
    // The other name is one that the family ignores.
    replace_in_file(outer / kWeights, "\"lm_head.weight\"", "\"image_newlines\"");
    CHECK(fingerprint_of(outer) == tied);
  }

  TEST_CASE("linear rope scaling changes what is computed") {
    const fs::path folder = copy_checkpoint("llama_bf16", "unscaled");
    replace_in_file(folder / "config.json", "\"factor\": 2.5", "\"factor\": 1.0");
    CHECK(fingerprint_of(folder) != fingerprint(*open_case("llama_bf16")));
  }

  TEST_CASE("what the model says of itself") {
    const auto model = open_case("llama_bf16");
    CHECK(model->family() == "llava_next_video");
    CHECK(model->default_prompt() == "이 영상을 자세히 설명해 주세요.");
    CHECK(model->eos_ids() == std::vector<std::int32_t>{2});
    CHECK(model->vision_tokens({8}) == 32);  // a 4x4 grid pooled by 2, 8 frames
    const model::DecoderSpec& spec = model->decoder().spec();
    CHECK(spec.num_layers == 2);
    CHECK(spec.num_kv_heads == 2);
    CHECK(spec.vocab == 440);
    CHECK(spec.max_positions == 640);  // 256 positions, scaled by 2.5
    CHECK(model->preprocess_spec().shortest_edge_px == 28);
    CHECK(open_case("composed_mlp")->family() == "composed");
  }

  TEST_CASE("weight bytes count what is used, at the width it is held in") {
    // Neither the last tower layer (vision_feature_layer -2) nor image_newline is used.
    const auto file_bytes =
        static_cast<std::int64_t>(fs::file_size(golden_folder() / "llama_old" / kWeights));
    const std::int64_t f32 = open_case("llama_old")->weight_bytes();
    const std::int64_t bf16 = open_case("llama_old", WeightFormat::kBF16)->weight_bytes();
    CHECK(f32 < file_bytes);
    CHECK(f32 > file_bytes / 2);
    if (kernels::rounds_input(testing::tested_context(), MatrixFormat::kBF16)) {
      // Panels pad matrices to multiples of 32 features, which adds at most a third if they have at
      // least 64.
      CHECK(bf16 * 2 >= f32);
      CHECK(bf16 * 2 <= f32 * 4 / 3);
    } else {
      CHECK(bf16 * 2 == f32);
    }
  }

  TEST_CASE("stop ids come from generation_config.json when it is there") {
    const fs::path folder = copy_checkpoint("llama_bf16", "generation_config");
    CHECK(model::open_model(testing::tested_context(), folder, WeightFormat::kF32)->eos_ids() ==
          std::vector<std::int32_t>{2});
    std::ofstream(folder / "generation_config.json") << R"({"eos_token_id": [7, 2]})";
    CHECK(model::open_model(testing::tested_context(), folder, WeightFormat::kF32)->eos_ids() ==
          std::vector<std::int32_t>{7, 2});
  }

  TEST_CASE("the content hash follows weights, configuration and settings") {
    const Sha256 hash = open_case("llama_bf16")->content_hash();
    CHECK(open_case("llama_bf16")->content_hash() == hash);
    const fs::path folder = copy_checkpoint("llama_bf16", "other_config");
    CHECK(
        model::open_model(testing::tested_context(), folder, WeightFormat::kF32)->content_hash() ==
        hash);
    replace_in_file(folder / "config.json", "\"factor\": 2.5", "\"factor\": 2.0");
    CHECK_FALSE(
        model::open_model(testing::tested_context(), folder, WeightFormat::kF32)->content_hash() ==
        hash);

    model::ComposedSource source = composed_source();
    const Sha256 composed =
        model::open_composed(testing::tested_context(), source, WeightFormat::kF32)->content_hash();
    source.vision_feature_layers = {1};
    CHECK_FALSE(model::open_composed(testing::tested_context(), source, WeightFormat::kF32)
                    ->content_hash() == composed);
  }

  // Whether a sentence ends with what to do.
  bool names_remedy(const std::string& sentence) {
    const std::string last = sentence.substr(sentence.find_last_of(":;") + 1);
    for (const char* remedy : {"download", "mend", "take both", "must say so"}) {
      if (last.find(remedy) != std::string::npos) return true;
    }
    return false;
  }

  struct Broken {
    const char* name;
    std::function<void(const fs::path&)> break_it;
    ErrorCode code;
    std::vector<const char*> message;  // parts that the sentence must contain
  };

  TEST_CASE("a broken or foreign checkpoint is refused in one clear sentence") {
    const auto edit = [](const char* file, const char* from, const char* to) {
      return [=](const fs::path& folder) { replace_in_file(folder / file, from, to); };
    };
    const auto remove = [](const char* file) {
      return [=](const fs::path& folder) { fs::remove(folder / file); };
    };
    const auto bad = ErrorCode::kBadModel;
    const auto unavailable = ErrorCode::kUnavailable;
    const Broken kCases[] = {
        {"no config", remove("config.json"), bad, {"config.json is missing"}},
        {"no weights", remove(kWeights), bad, {"safetensors"}},
        {"no preprocessor",
         remove("video_preprocessor_config.json"),
         bad,
         {"video_preprocessor_config.json"}},
        {"no tokenizer", remove("tokenizer.model"), bad, {"tokenizer"}},
        {"no text_config",
         edit("config.json", "text_config", "texxt_config"),
         bad,
         {"text_config is missing"}},
        {"another family",
         edit("config.json", "\"llava_next_video\"", "\"florence2\""),
         unavailable,
         {"\"florence2\""}},
        {"quantised",
         edit("config.json", "\"video_seq_length\"",
              "\"quantization_config\": {\"quant_method\": \"quanto\"}, "
              "\"video_seq_length\""),
         unavailable,
         {"\"quanto\""}},
        {"another pooling",
         edit("config.json", "\"average\"", "\"median\""),
         unavailable,
         {"spatial_pool_mode \"median\"", "average, max and conv"}},
        {"conv pooling of another width",
         edit("config.json", "\"average\"", "\"conv\""),
         bad,
         {"spatial_pool_out_channels is 1024", "32"}},
        {"full features",
         edit("config.json", "\"vision_feature_select_strategy\": \"default\"",
              "\"vision_feature_select_strategy\": \"full\""),
         unavailable,
         {"\"full\""}},
        {"two feature layers",
         edit("config.json", "\"vision_feature_layer\": -2", "\"vision_feature_layer\": [-2, -1]"),
         bad,
         {"linear_1.weight", "has shape"}},
        {"feature layer out of range",
         edit("config.json", "\"vision_feature_layer\": -2", "\"vision_feature_layer\": 7"),
         bad,
         {"vision_feature_layer 7", "3 layers"}},
        {"pooling beyond the grid",
         edit("config.json", "\"spatial_pool_stride\": 2", "\"spatial_pool_stride\": 5"),
         bad,
         {"stride 5", "4x4"}},
        {"missing tensor",
         edit(kWeights, "layers.1.mlp.up_proj", "layers.1.mlp.up_prox"),
         bad,
         {"layers.1.mlp.up_proj.weight"}},
        {"missing tower",
         edit(kWeights, "class_embedding", "class_embeddinx"),
         bad,
         {"embeddings.class_embedding", "looked for"}},
        {"missing head",
         edit(kWeights, "\"lm_head.weight\"", "\"lm_heax.weight\""),
         bad,
         {"lm_head.weight"}},
        {"wrong shape",
         edit("config.json", "\"intermediate_size\": 96", "\"intermediate_size\": 97"),
         bad,
         {"mlp.gate_proj.weight", "[96, 64]", "[97, 64]"}},
        {"more heads than weights",
         edit("config.json", "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 4"),
         bad,
         {"k_proj.weight"}},
        {"embedding smaller than declared",
         edit("config.json", "\"vocab_size\": 440", "\"vocab_size\": 441"),
         bad,
         {"embed_tokens.weight", "441"}},
        {"another tower's frames",
         edit("video_preprocessor_config.json", "\"height\": 28", "\"height\": 42"),
         bad,
         {"28x42", "28x28"}},
        {"another tokenizer",
         edit("config.json", "\"video_token_index\": 430", "\"video_token_index\": 429"),
         bad,
         {"tokenizer is another model's", "430", "429"}},
        {"video token outside the embedding",
         edit("config.json", "\"video_token_index\": 430", "\"video_token_index\": 440"),
         bad,
         {"video_token_index"}},
        {"torn configuration",
         edit("config.json", "\"text_config\": {", "\"text_config\": "),
         bad,
         {"config.json"}},
    };
    for (const Broken& c : kCases) {
      CAPTURE(std::string(c.name));
      const fs::path folder = copy_checkpoint("llama_bf16", "broken");
      c.break_it(folder);
      try {
        model::open_model(testing::tested_context(), folder, WeightFormat::kF32);
        FAIL_CHECK("accepted");
      } catch (const Error& error) {
        const std::string what = error.what();
        CAPTURE(what);
        CHECK(error_code_name(error.code()) == error_code_name(c.code));
        CHECK(what.find('\n') == std::string::npos);
        CHECK((c.code == unavailable || names_remedy(what)));
        for (const char* part : c.message) CHECK(what.find(part) != std::string::npos);
      }
    }
  }

  TEST_CASE("a file of more layers than the configuration has is refused") {
    const fs::path folder = copy_checkpoint("llama_bf16", "fewer_layers");
    const std::string text = read_text_file(folder / "config.json");
    const std::size_t at = text.find("\"num_hidden_layers\": ", text.find("\"text_config\""));
    REQUIRE(at != std::string::npos);
    const std::size_t digit = text.find_first_of("0123456789", at);
    const int layers = text[digit] - '0';
    REQUIRE(layers > 1);
    std::string fewer = text;
    fewer[digit] = static_cast<char>('0' + layers - 1);
    std::ofstream(folder / "config.json", std::ios::binary | std::ios::trunc) << fewer;
    CHECK_THROWS_WITH_AS(model::open_model(testing::tested_context(), folder, WeightFormat::kF32),
                         doctest::Contains("the configuration is another model's"), Error);
  }

  TEST_CASE("a stop id outside the vocabulary is refused when the model is opened") {
    const fs::path folder = copy_checkpoint("llama_bf16", "stop_id");
    std::ofstream(folder / "generation_config.json") << R"({"eos_token_id": 99999})";
    CHECK_THROWS_WITH_AS(model::open_model(testing::tested_context(), folder, WeightFormat::kF32),
                         doctest::Contains("eos_token_id 99999 is not in the vocabulary"), Error);
  }

  TEST_CASE("a tokenizer with more ids than the embedding has rows is refused") {
    const fs::path folder = copy_checkpoint("llama_bf16", "large_tokenizer");
    std::string more;  // ids 432 to 440; the embedding's last row is 439
    for (int id = 432; id <= 440; ++id) {
      const std::string number = std::to_string(id);
      more.append("\"").append(number).append("\": {\"content\": \"<extra").append(number);
      more.append(">\", \"special\": true, \"normalized\": false}, ");
    }
    replace_in_file(folder / "tokenizer_config.json", "\"431\": {", more + "\"431\": {");
    CHECK_THROWS_WITH_AS(model::open_model(testing::tested_context(), folder, WeightFormat::kF32),
                         doctest::Contains("it has 441 ids, the decoder's embedding 440 rows"),
                         Error);
  }
}

}  // namespace
}  // namespace caption
