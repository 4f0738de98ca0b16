// What folders and files are said to be, from configurations and headers.
#include "model/model_files.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "tests/model/support.h"
#include "tests/support/drawn_checkpoint.h"

namespace caption {
namespace {

namespace fs = std::filesystem;
using namespace testing;
using model::ModelKind;
using weights::WeightFormat;

fs::path lora(const char* name) {
  return fs::path(CAPTION_SOURCE_DIR) / "tests/golden/lora" / name;
}

fs::path write_config(const std::string& json) {
  const fs::path folder = fs::path(CAPTION_TEST_TMP) / "model_files";
  fs::create_directories(folder);
  std::ofstream(folder / "config.json") << json;
  return folder;
}

TEST_SUITE("model/describe_files") {
  TEST_CASE("a folder is what its configuration says") {
    const model::ModelFiles captioner = model::read_model_files(golden_folder() / "llama_bf16");
    CHECK(captioner.kind == ModelKind::kCaptioner);
    CHECK(captioner.model_type == "llava_next_video");
    CHECK(captioner.text_type == "llama");
    CHECK(captioner.quantisation.empty());
    REQUIRE(captioner.blueprint.has_value());
    CHECK(captioner.blueprint->vision.has_value());
    CHECK(model::read_model_files(golden_folder() / "qwen3_shards").text_type == "qwen3");
    CHECK(model::read_model_files(golden_folder() / "composed/llm").kind ==
          ModelKind::kLanguageModel);
    CHECK(model::read_model_files(golden_folder() / "composed/vision").kind ==
          ModelKind::kVisionTower);
    CHECK_THROWS_WITH_AS(model::read_model_files(golden_folder()),
                         doctest::Contains("config.json is missing"), Error);
  }

  TEST_CASE("a configuration that this build cannot size is still told") {
    const model::ModelFiles other = model::read_model_files(write_config(
        R"({"model_type": "gpt_oss", "quantization_config": {"quant_method": "mxfp4"}})"));
    CHECK(other.kind == ModelKind::kOther);
    CHECK(other.model_type == "gpt_oss");
    CHECK(other.quantisation == "mxfp4");
    CHECK_FALSE(other.blueprint.has_value());
    const auto quantisation = [](const char* object) {
      return model::read_model_files(write_config(std::string(R"({"model_type": "qwen3", )") +
                                                  R"("quantization_config": )" + object + "}"))
          .quantisation;
    };
    CHECK(quantisation(R"({"quant_method": "awq", "bits": 4})") == "awq, 4 bits");
    CHECK(quantisation(R"({"quant_method": "bitsandbytes", "load_in_4bit": true})") ==
          "bitsandbytes, 4 bits");
    CHECK(quantisation("{}") == "unnamed");
    CHECK(model::read_model_files(
              write_config(R"({"model_type": "internvl_chat", "llm_config": )"
                           R"({"quantization_config": {"quant_method": "awq", "bits": 4}}})"))
              .quantisation == "awq, 4 bits");
    CHECK_THROWS_AS(model::read_model_files(write_config("{}")), Error);
  }

  TEST_CASE("a part of a composed model is refused as opening it would") {
    CHECK_NOTHROW(model::require_usable_part(golden_folder() / "composed/llm"));
    CHECK_NOTHROW(model::require_usable_part(golden_folder() / "composed/vision"));
    CHECK_THROWS_WITH_AS(
        model::require_usable_part(write_config(
            R"({"model_type": "qwen3", "quantization_config": {"quant_method": "exl2"}})")),
        doctest::Contains("quant_method \"exl2\" is not read by this build"), Error);
  }

  TEST_CASE("weight files are counted from their headers") {
    const model::WeightFiles shards = model::read_weight_files(golden_folder() / "qwen3_shards");
    CHECK(shards.paths.size() > 1);
    REQUIRE_FALSE(shards.dtypes.empty());
    std::int64_t bytes = 0;
    for (const weights::StoredDType& dtype : shards.dtypes) bytes += dtype.size_bytes;
    CHECK(bytes == shards.size_bytes);
    const model::WeightFiles one = model::read_weight_files(golden_folder() / "llama_bf16");
    CHECK(one.paths.size() == 1);
    CHECK(one.dtypes.front().name == "bf16");
  }

  TEST_CASE("an adapter says its base, its ranks and its modules") {
    const DrawnCheckpoint checkpoint(lora("llama_head"));
    CHECK(model::is_adapter_folder(checkpoint.path()));
    CHECK_FALSE(model::is_adapter_folder(golden_folder() / "llama_bf16"));
    const model::AdapterFiles adapter = model::read_adapter_files(checkpoint.path());
    CHECK(adapter.num_modules > 0);
    CHECK(adapter.rank > 0);
    CHECK(adapter.modules.size() <= static_cast<std::size_t>(adapter.num_modules));
    CHECK(std::find(adapter.modules.begin(), adapter.modules.end(), "lm_head") !=
          adapter.modules.end());
    fs::remove(checkpoint.path() / "adapter_model.safetensors");
    CHECK_THROWS_AS(model::read_adapter_files(checkpoint.path()), Error);
  }

  TEST_CASE("a projector is a chain of linear layers, and a model's file is none") {
    const auto projector =
        model::read_projector_file(golden_folder() / "composed/projector_mlp.safetensors");
    REQUIRE(projector.has_value());
    CHECK(projector->layers == std::vector<Shape>{{48, 32}, {48, 48}});
    CHECK(projector->kind == model::ProjectorKind::kMlp);
    CHECK_FALSE(
        model::read_projector_file(golden_folder() / "llama_bf16/model.safetensors").has_value());
    struct Case {
      const char* name;
      model::ProjectorKind kind;
    };
    constexpr Case kCases[] = {
        {"c_abstractor_clip", model::ProjectorKind::kCAbstractor},
        {"idefics2_clip", model::ProjectorKind::kPerceiverResampler},
        {"perceiver_siglip", model::ProjectorKind::kPerceiverResampler},
    };
    for (const Case& c : kCases) {
      CAPTURE(std::string(c.name));
      const DrawnCheckpoint parts(fs::path(CAPTION_SOURCE_DIR) / "tests/golden/projectors" /
                                  c.name);
      const auto other = model::read_projector_file(parts.path() / "projector.safetensors");
      REQUIRE(other.has_value());
      CHECK(other->kind == c.kind);
    }
  }

  TEST_CASE("a model that is opened to be checked has no merged adapter, and the same refusals") {
    const DrawnCheckpoint adapter(lora("llama_all"));
    const auto open = [&](const fs::path& folder, std::vector<model::AdapterSource> adapters,
                          model::Opening opening) {
      return model::open_model(tested_context(), folder, WeightFormat::kF32,
                               {.adapters = adapters, .opening = opening});
    };
    const fs::path base = golden_folder() / "llama_bf16";
    const auto checked = open(base, {{.folder = adapter.path()}}, model::Opening::kToCheck);
    // Merged weights are f32; those of the file have 16 bits.
    CHECK(checked->weight_bytes() == open(base, {}, model::Opening::kToRun)->weight_bytes());
    CHECK(checked->weight_bytes() <
          open(base, {{.folder = adapter.path()}}, model::Opening::kToRun)->weight_bytes());
    CHECK(checked->adapter_summaries().size() == 1);
    CHECK_THROWS_WITH_AS(open(golden_folder() / "qwen3_shards", {{.folder = adapter.path()}},
                              model::Opening::kToCheck),
                         doctest::Contains("another base model's"), Error);
  }
}

}  // namespace
}  // namespace caption
