// Composed models: projector files with different layers and names, and refusals.
#include <doctest/doctest.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/model/captioner_golden.h"
#include "tests/model/support.h"

namespace caption {
namespace {

namespace fs = std::filesystem;
using namespace testing;
using model::ComposedSource;
using weights::WeightFormat;

// Returns the composed golden with separate copies of all its parts.
ComposedSource copied_source(std::string_view copy_name) {
  const fs::path folder = copy_checkpoint("composed", copy_name);
  ComposedSource source = composed_source();
  source.vision = folder / "vision";
  source.projector = folder / "projector_mlp.safetensors";
  source.llm = folder / "llm";
  return source;
}

Hash128 tokens_hash(const ComposedSource& source) {
  ThreadPool pool(1);
  Stream stream(testing::tested_context(), pool);
  const auto model = model::open_composed(testing::tested_context(), source, WeightFormat::kF32);
  const Tensor pixels = golden_pixel_values(pool, *model, open_golden("composed_mlp"));
  const Tensor tokens = to_host(stream, model->encode_frames(stream, pixels.view()).view());
  return hash_bytes({reinterpret_cast<const std::byte*>(tokens.as<float>()), tokens.size_bytes()});
}

TEST_SUITE("model/composed") {
  TEST_CASE("a projector's layers may have any names, in order") {
    const Hash128 expected = tokens_hash(composed_source());
    const ComposedSource source = copied_source("projector_names");
    // "0.weight" -> "a.weight" keeps the length and the order of names.
    replace_in_file(source.projector, "\"0.", "\"a.");
    replace_in_file(source.projector, "\"2.", "\"b.");
    CHECK(tokens_hash(source) == expected);
  }

  TEST_CASE("SigLIP, a projector of three layers and Qwen3 compute what the reference does") {
    const fs::path golden = fs::path(CAPTION_SOURCE_DIR) / "tests/golden/composed/siglip";
    const DrawnCheckpoint parts(golden);
    const ComposedSource source = {.vision = parts.path() / "vision",
                                   .projector = parts.path() / "projector.safetensors",
                                   .llm = parts.path() / "llm",
                                   .vision_feature_layers = {-2},
                                   .drop_cls = true,
                                   .pool_stride = 2,
                                   .prompt = "{video}{prompt}"};
    const auto model = model::open_composed(tested_context(), source, WeightFormat::kF32);
    check_golden_clips(*model, golden);
    // There is no class token that could be kept.
    ComposedSource keeping = source;
    keeping.drop_cls = false;
    CHECK(model::open_composed(tested_context(), keeping, WeightFormat::kF32)->vision_tokens({3}) ==
          12);
    replace_in_file(source.vision / "config.json", "siglip_vision_model", "siglip2_vision_model");
    check_refused(source, ErrorCode::kUnavailable, {"siglip2_vision_model"});
  }

  TEST_CASE("a whole CLIP's configuration opens like its vision tower's") {
    const Hash128 expected = tokens_hash(composed_source());
    const ComposedSource source = copied_source("whole_clip");
    replace_in_file(source.vision / "config.json", "\"model_type\": \"clip_vision_model\"",
                    "\"model_type\": \"clip_vision_model\", \"x\": 0");
    const std::string inner = [&] {
      std::ifstream file(source.vision / "config.json");
      return std::string(std::istreambuf_iterator<char>(file), {});
    }();
    std::ofstream(source.vision / "config.json")
        << "{\"model_type\": \"clip\", \"vision_config\": " << inner << "}";
    CHECK(tokens_hash(source) == expected);
  }

  TEST_CASE("keeping the class token adds one token a frame; pooling divides them") {
    ComposedSource source = composed_source();
    CHECK(model::open_composed(testing::tested_context(), source, WeightFormat::kF32)
              ->vision_tokens({3}) == 48);
    source.drop_cls = false;
    CHECK(model::open_composed(testing::tested_context(), source, WeightFormat::kF32)
              ->vision_tokens({3}) == 51);
    source.drop_cls = true;
    source.pool_stride = 2;
    CHECK(model::open_composed(testing::tested_context(), source, WeightFormat::kF32)
              ->vision_tokens({3}) == 12);
    source.pool_stride = 3;  // a 4x4 grid has room for one window of 3x3
    CHECK(model::open_composed(testing::tested_context(), source, WeightFormat::kF32)
              ->vision_tokens({3}) == 3);
    source.drop_cls = false;
    check_refused(source, ErrorCode::kBadModel, {"class token"});
    source.drop_cls = true;
    source.pool_stride = 0;
    check_refused(source, ErrorCode::kBadModel, {"stride 0"});
  }

  TEST_CASE("models of different options are different models") {
    const auto hash = [](const ComposedSource& source) {
      return model::open_composed(tested_context(), source, WeightFormat::kF32)
          ->content_hash()
          .hex();
    };
    ComposedSource one = composed_source();
    one.system_template = "{system}|a";
    ComposedSource other = composed_source();
    other.system_template = "{system}";
    other.example_end = "a";
    CHECK(hash(one) != hash(other));
    ComposedSource layers = composed_source();
    layers.vision_feature_layers = {-1};
    ComposedSource same = composed_source();
    same.vision_feature_layers = {-1};
    CHECK(hash(layers) == hash(same));
    same.pool_stride = 2;
    CHECK(hash(layers) != hash(same));
  }

  TEST_CASE("parts that do not fit are refused by name") {
    ComposedSource source = copied_source("broken");
    SUBCASE("a feature layer the tower lacks") {
      source.vision_feature_layers = {-5};
      check_refused(source, ErrorCode::kBadPreset,
                    {"model.vision_feature_layer -5", "3 layers", "choose from -4 to 3"});
    }
    SUBCASE("a projector of another width") {
      replace_in_file(source.llm / "config.json", "\"hidden_size\": 48", "\"hidden_size\": 56");
      check_refused(source, ErrorCode::kBadModel, {"projector_mlp", "2.weight", "[56, 48]"});
    }
    SUBCASE("a projector with a norm inside") {
      replace_in_file(source.projector, "\"2.weight\"", "\"2.weighx\"");
      check_refused(source, ErrorCode::kUnavailable, {"2.weighx", "no linear layer"});
    }
    SUBCASE("a projector without a layer") {
      // A safetensors file without tensors: the length of its header, and the header.
      std::ofstream(source.projector, std::ios::binary) << std::string("\2\0\0\0\0\0\0\0{}", 10);
      check_refused(source, ErrorCode::kBadModel, {"holds no linear layer"});
    }
    SUBCASE("a bias without its weight") {
      replace_in_file(source.projector, "\"0.bias\"", "\"1.bias\"");
      check_refused(source, ErrorCode::kBadModel, {"1.bias"});
    }
    SUBCASE("a projector that is not there") {
      source.projector = source.llm / "nothing.safetensors";
      check_refused(source, ErrorCode::kBadModel, {"nothing.safetensors"});
    }
    SUBCASE("a language model that is none") {
      source.llm = source.vision;
      check_refused(source, ErrorCode::kUnavailable, {"clip_vision_model"});
    }
    SUBCASE("quantised language model") {
      replace_in_file(source.llm / "config.json", "\"rope_theta\"",
                      "\"quantization_config\": {\"quant_method\": \"exl2\"}, \"rope_theta\"");
      check_refused(source, ErrorCode::kUnavailable, {"\"exl2\""});
    }
  }
}

}  // namespace
}  // namespace caption
