// Which GGUF files of a folder are a model, and what stands in the place of its other files.
#include "model/internal/model_folder.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "model/caption_model.h"
#include "model/model_files.h"
#include "model/read_blueprint.h"
#include "tests/model/support.h"
#include "tests/support/drawn_gguf.h"

namespace caption {
namespace {

namespace fs = std::filesystem;
using namespace testing;
using model::ModelFolder;
using model::ModelPart;

const fs::path kGoldens = CAPTION_SOURCE_DIR "/tests/golden/gguf_captioners";

Sha256 hash_of(const fs::path& path) {
  return model::open_model(tested_context(), path, weights::WeightFormat::kF32)->content_hash();
}

void check_refused(const fs::path& path, ErrorCode code, const char* message) {
  CAPTURE(std::string(message));
  try {
    model::open_model(tested_context(), path, weights::WeightFormat::kF32);
    FAIL_CHECK("opened");
  } catch (const Error& error) {
    CAPTURE(std::string(error.what()));
    CHECK(error.code() == code);
    CHECK(std::string(error.what()).find(message) != std::string::npos);
  }
}

TEST_SUITE("model/model_folder") {
  TEST_CASE("a model is named by its folder or by its language model's file") {
    const DrawnGguf drawn(kGoldens / "internvl");
    const fs::path text = drawn.path() / "model.gguf";
    CHECK(model::is_gguf_model(drawn.path()));
    CHECK(model::is_gguf_model(text));
    CHECK(!model::is_gguf_model(drawn.checkpoint()));
    CHECK(!model::is_gguf_model(drawn.path() / "none"));
    const Sha256 hash = hash_of(drawn.path());
    CHECK(hash == hash_of(text));
    CHECK(model::read_blueprint(drawn.path()).parameters.size() ==
          model::read_blueprint(drawn.checkpoint()).parameters.size());
    const model::ModelFiles files = model::read_model_files(text);
    CHECK(files.kind == model::ModelKind::kCaptioner);
    CHECK(files.model_type == "internvl");
    CHECK(files.text_type == "qwen3");
    CHECK(files.quantisation.empty());
    const model::WeightFiles weights = model::read_weight_files(drawn.path());
    CHECK(weights.paths.size() == 2);
    CHECK(weights.num_parameters == model::read_weight_files(drawn.checkpoint()).num_parameters);
    CHECK(weights.dtypes.front().name == "BF16");

    const fs::path here = fs::current_path();
    fs::current_path(drawn.path());
    CHECK(ModelFolder("model.gguf").gguf_tower() != nullptr);
    fs::current_path(here);

    // A folder that also holds safetensors files is read as transformers reads it.
    std::ofstream(drawn.path() / "other.safetensors") << "";
    CHECK(!model::is_gguf_model(drawn.path()));
    fs::remove(drawn.path() / "other.safetensors");

    // The largest of several towers' files counts; the name tells them from language models.
    fs::copy_file(drawn.path() / "mmproj-model.gguf", drawn.path() / "model-MMPROJ-small.gguf");
    fs::resize_file(drawn.path() / "model-MMPROJ-small.gguf", 100);
    CHECK(hash == hash_of(drawn.path()));
    // The one that has the model's name counts before a larger one.
    fs::copy_file(drawn.path() / "mmproj-model.gguf", drawn.path() / "mmproj-other-F16.gguf");
    fs::resize_file(drawn.path() / "mmproj-other-F16.gguf", 100 << 20);
    CHECK(hash == hash_of(drawn.path()));
    CHECK(hash == hash_of(text));
    fs::rename(text, drawn.path() / "third.gguf");
    check_refused(drawn.path(), ErrorCode::kBadModel,
                  "holds 3 vision towers, mmproj-model.gguf, mmproj-other-F16.gguf, "
                  "model-MMPROJ-small.gguf, and no name tells which is the model's");
    // Towers of one name differ in their types.
    fs::rename(drawn.path() / "third.gguf", text);
    fs::remove(drawn.path() / "mmproj-other-F16.gguf");
    fs::rename(text, drawn.path() / "third-Q4_K_M-00001-of-00003.gguf");
    fs::rename(drawn.path() / "mmproj-model.gguf", drawn.path() / "mmproj-Third_BF16.gguf");
    fs::rename(drawn.path() / "model-MMPROJ-small.gguf", drawn.path() / "third.mmproj-IQ4_XS.gguf");
    CHECK(ModelFolder(drawn.path()).gguf_tower()->path().filename() == "mmproj-Third_BF16.gguf");
    fs::rename(drawn.path() / "third-Q4_K_M-00001-of-00003.gguf", text);
    CHECK(ModelFolder(drawn.path()).gguf_tower()->path().filename() == "mmproj-Third_BF16.gguf");
    fs::rename(drawn.path() / "mmproj-Third_BF16.gguf", drawn.path() / "mmproj-model.gguf");
    // Files beside a model that is named by its folder count.
    std::ofstream(drawn.path() / "preprocessor_config.json")
        << R"({"size": {"height": 55, "width": 56}})";
    check_refused(drawn.path(), ErrorCode::kBadModel, "preprocessing and vision tower do not fit");
    CHECK(hash == hash_of(text));
  }

  TEST_CASE("files that are no captioner are refused with what to do") {
    const DrawnGguf drawn(kGoldens / "llava_next_video");
    const fs::path text = drawn.path() / "model.gguf";
    const fs::path tower = drawn.path() / "mmproj-model.gguf";
    check_refused(
        tower, ErrorCode::kBadModel,
        "mmproj-model.gguf: is a vision tower without its language model; put the GGUF file "
        "of the language model beside it");
    fs::copy_file(text, drawn.path() / "model-q4.gguf");
    check_refused(drawn.path(), ErrorCode::kBadModel,
                  "holds 2 GGUF files of language models, model-q4.gguf, model.gguf; name one");
    // A later part of a split file is not a model of its own.
    fs::rename(drawn.path() / "model-q4.gguf", drawn.path() / "q4-00002-of-00002.gguf");
    CHECK_NOTHROW(hash_of(drawn.path()));
    replace_in_file(text, "<video>", "<wideo>");
    check_refused(
        text, ErrorCode::kUnavailable,
        "has no token <video>, so that this is a LLaVA for images; it runs as a composed");
    fs::remove(tower);
    check_refused(text, ErrorCode::kBadModel,
                  "model.gguf: is a language model without its vision tower; put the tower's file");
    CHECK(model::read_model_files(text).kind == model::ModelKind::kLanguageModel);
    CHECK_NOTHROW(model::require_usable_part(text));
    fs::remove(text);
    fs::remove(drawn.path() / "q4-00002-of-00002.gguf");
    check_refused(
        drawn.path(), ErrorCode::kBadModel,
        "config.json is missing; a model is a folder as transformers saves it, or its GGUF "
        "files: copy or download it whole");
  }

  TEST_CASE("a LLaVA in GGUF files is a composed model of its parts") {
    const DrawnGguf drawn(kGoldens / "llava_next_video");
    const fs::path tower = drawn.path() / "mmproj-model.gguf";
    const auto composed = [&](const fs::path& vision, const fs::path& projector,
                              const fs::path& llm) {
      model::ComposedSource source;
      source.vision = vision;
      source.projector = projector;
      source.llm = llm;
      source.prompt = "[INST] {video}{prompt} [/INST]";
      return source;
    };
    const model::ComposedSource source = composed(tower, tower, drawn.path() / "model.gguf");
    const auto found = model::open_composed(tested_context(), source, weights::WeightFormat::kF32);
    const model::ClipShape clip = {.num_frames = 2};
    CHECK(found->family() == "composed");
    const auto content_hash = found->content_hash();  // before the file gets another name
    CHECK(found->vision_tokens(clip) == 2 * 16);
    // A file that is named as a part needs no "mmproj" in its name.
    const fs::path other = drawn.path() / "clip.gguf";
    fs::rename(tower, other);
    CHECK(model::open_composed(tested_context(),
                               composed(other, other, drawn.path() / "model.gguf"),
                               weights::WeightFormat::kF32)
              ->content_hash() == content_hash);
    CHECK_THROWS_WITH_AS(ModelFolder(source.llm, ModelPart::kVision).require_config(),
                         doctest::Contains("general.architecture is \"llama\"; expected clip"),
                         Error);
    fs::rename(other, tower);
    // The folder can stand for each of its parts.
    const auto by_folder =
        model::open_composed(tested_context(), composed(drawn.path(), drawn.path(), drawn.path()),
                             weights::WeightFormat::kF32);
    CHECK(by_folder->build_prompt("x", clip).ids == found->build_prompt("x", clip).ids);
    CHECK(by_folder->weight_bytes() == found->weight_bytes());
    const model::Blueprint planned =
        model::compose_blueprint(model::read_blueprint(tower, ModelPart::kVision),
                                 model::read_blueprint(source.llm, ModelPart::kText), source);
    CHECK(model::placed_bytes(tested_context(), planned, weights::WeightFormat::kF32) ==
          found->weight_bytes());
    CHECK_THROWS_WITH_AS(ModelFolder(tower).open_tokenizer(), doctest::Contains("has no tokenizer"),
                         Error);
  }
}

}  // namespace
}  // namespace caption
