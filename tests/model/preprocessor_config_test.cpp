// The preprocessing constants of a folder: which of its files applies, and its special cases.
#include "model/internal/preprocessor_config.h"

#include <doctest/doctest.h>

#include <fstream>
#include <string>

namespace caption {
namespace {

namespace fs = std::filesystem;
using vision::PreprocessSpec;

PreprocessSpec parse(std::string_view text) {
  return model::parse_preprocess_spec(
      JsonObject::parse(text, "preprocessor_config.json", ErrorCode::kBadModel));
}

fs::path empty_folder(std::string_view name) {
  const fs::path folder = fs::path(CAPTION_TEST_TMP) / "preprocessor_config" / name;
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

void write(const fs::path& path, std::string_view text) { std::ofstream(path) << text; }

TEST_SUITE("model/preprocessor_config") {
  TEST_CASE("the class default is 224 pixels, not 336") {
    const PreprocessSpec spec = parse("{}");
    CHECK(spec.do_resize);
    CHECK(spec.shortest_edge_px == 224);
    CHECK(spec.do_center_crop);
    CHECK(spec.crop_px == std::array{224, 224});
    CHECK(spec.do_normalize);
    CHECK(spec.mean[0] == 0.48145466F);
    CHECK(spec.std[2] == 0.27577711F);
  }

  TEST_CASE("sizes are objects, or plain numbers in older files") {
    const PreprocessSpec objects =
        parse(R"({"size": {"shortest_edge": 336}, "crop_size": {"height": 336, "width": 330}})");
    CHECK(objects.shortest_edge_px == 336);
    CHECK(objects.crop_px == std::array{336, 330});
    const PreprocessSpec numbers = parse(R"({"size": 336, "crop_size": 336})");
    CHECK(numbers.shortest_edge_px == 336);
    CHECK(numbers.crop_px == std::array{336, 336});
    const PreprocessSpec straight =
        parse(R"({"size": {"height": 20, "width": 30}, "do_center_crop": false})");
    CHECK_FALSE(straight.shortest_edge_px.has_value());
    CHECK(straight.size_px == std::array{20, 30});
    CHECK_FALSE(straight.do_center_crop);
  }

  TEST_CASE("files are looked up in the order of the reference") {
    const fs::path folder = empty_folder("order");
    CHECK_THROWS_WITH_AS(model::read_preprocess_spec(model::ModelFolder(folder)),
                         doctest::Contains("video_preprocessor_config.json"), Error);
    // A processor_config.json without video_processor gives no constants of frames.
    write(folder / "processor_config.json", R"({"patch_size": 14})");
    CHECK_THROWS_AS(model::read_preprocess_spec(model::ModelFolder(folder)), Error);
    write(folder / "processor_config.json",
          R"({"video_processor": {"size": {"shortest_edge": 3}}})");
    CHECK(model::read_preprocess_spec(model::ModelFolder(folder)).shortest_edge_px == 3);
    write(folder / "preprocessor_config.json", R"({"size": {"shortest_edge": 1}})");
    CHECK(model::read_preprocess_spec(model::ModelFolder(folder)).shortest_edge_px == 1);
    write(folder / "video_preprocessor_config.json", R"({"size": {"shortest_edge": 2}})");
    CHECK(model::read_preprocess_spec(model::ModelFolder(folder)).shortest_edge_px == 2);
    write(folder / "video_preprocessor_config.json",
          R"({"size": {"shortest_edge": 2}, "video_processor": {"size": {"shortest_edge": 4}}})");
    CHECK(model::read_preprocess_spec(model::ModelFolder(folder)).shortest_edge_px == 4);
  }

  TEST_CASE("each family has the class defaults of its video processor") {
    const auto parse_as = [](std::string_view text, const model::PreprocessDefaults& defaults) {
      return model::parse_preprocess_spec(
          JsonObject::parse(text, "preprocessor_config.json", ErrorCode::kBadModel), defaults);
    };
    const PreprocessSpec onevision = parse_as("{}", model::llava_onevision_preprocessing());
    CHECK(onevision.size_px == std::array{384, 384});
    CHECK_FALSE(onevision.do_center_crop);
    CHECK(onevision.mean[0] == 0.48145466F);
    CHECK(parse_as(R"({"size": 30})", model::llava_onevision_preprocessing()).shortest_edge_px ==
          30);
    CHECK(parse_as(R"({"size": 30})", model::internvl_preprocessing()).size_px ==
          std::array{30, 30});
    const PreprocessSpec siglip = parse_as("{}", model::siglip_preprocessing());
    CHECK(siglip.size_px == std::array{224, 224});
    CHECK(siglip.std[1] == 0.5F);
    // null means the default, and what only images are padded with does not count.
    const PreprocessSpec nulls =
        parse_as(R"({"size": null, "do_center_crop": null, "crop_size": null, "do_pad": true})",
                 model::llava_onevision_preprocessing());
    CHECK(nulls == onevision);
  }

  TEST_CASE("Qwen2.5-VL's limits are per frame, and its old keys count before the new ones") {
    const model::VisionSpec tower = {.resize = vision::SmartResize{.unit_px = 28,
                                                                   .frames_per_patch = 2,
                                                                   .min_pixels = 100352,
                                                                   .max_pixels = 602112,
                                                                   .counts_clip = false},
                                     .class_tokens = 0};
    const auto parse_as = [&](std::string_view text) {
      return model::parse_preprocess_spec(
          JsonObject::parse(text, "preprocessor_config.json", ErrorCode::kBadModel),
          model::qwen_vl_preprocessing(tower));
    };
    const PreprocessSpec absent = parse_as("{}");
    CHECK(absent.smart == tower.resize);
    CHECK(absent.mean[0] == 0.48145466F);
    CHECK_FALSE(absent.do_center_crop);
    struct Case {
      const char* text;
      std::int64_t min_pixels, max_pixels;
    };
    constexpr Case kCases[] = {
        {R"({"min_pixels": 3136, "max_pixels": 12845056})", 3136, 12845056},
        {R"({"min_pixels": 5})", 5, 602112},
        {R"({"size": {"shortest_edge": 7, "longest_edge": 9}})", 7, 9},
        {R"({"size": {"shortest_edge": 7, "longest_edge": 9}, "max_pixels": 50})", 7, 50},
        {R"({"size": {"longest_edge": 9}, "min_pixels": 3, "max_pixels": null})", 3, 9},
    };
    for (const Case& c : kCases) {
      CAPTURE(std::string(c.text));
      const vision::SmartResize found = parse_as(c.text).smart.value();
      CHECK(found.min_pixels == c.min_pixels);
      CHECK(found.max_pixels == c.max_pixels);
      CHECK_FALSE(found.counts_clip);
    }
    CHECK_THROWS_WITH_AS(parse_as(R"({"size": {"longest_edge": 9}})"),
                         doctest::Contains("shortest_edge"), Error);
    CHECK_THROWS_WITH_AS(parse_as(R"({"patch_size": 16})"), doctest::Contains("patch_size 16"),
                         Error);
    model::VisionSpec qwen3 = tower;
    qwen3.resize->counts_clip = true;
    qwen3.resize->unit_px = 32;
    const auto ignored = JsonObject::parse(R"({"min_pixels": 5})", "c", ErrorCode::kBadModel);
    CHECK(model::parse_preprocess_spec(ignored, model::qwen_vl_preprocessing(qwen3)).smart ==
          qwen3.resize);
  }

  TEST_CASE("frames are resized by the filter that the file names, as SigLIP 2's does") {
    CHECK(parse("{}").resample == vision::Resample::kBicubic);
    CHECK(parse(R"({"resample": 3})").resample == vision::Resample::kBicubic);
    CHECK(parse(R"({"resample": 2})").resample == vision::Resample::kBilinear);
    CHECK(parse(R"({"resample": 0, "do_resize": false})").resample == vision::Resample::kBicubic);
  }

  TEST_CASE("what this build would do differently is refused") {
    struct Refusal {
      const char* text;
      ErrorCode code;
      const char* message;
    };
    const Refusal kCases[] = {
        {R"({"resample": 1})", ErrorCode::kUnavailable,
         "resample 1 is not supported by this build; 2 (bilinear) and 3 (bicubic) are; run"},
        {R"({"rescale_factor": 0.0078125})", ErrorCode::kUnavailable, "1/255"},
        {R"({"do_rescale": false})", ErrorCode::kUnavailable, "1/255"},
        {R"({"size": {"shortest_edge": 224, "longest_edge": 448}})", ErrorCode::kUnavailable,
         "shortest_edge"},
        {R"({"size": {}})", ErrorCode::kBadModel, "shortest_edge"},
        {R"({"size": {"height": 20}})", ErrorCode::kBadModel, "width"},
        {R"({"size": "large"})", ErrorCode::kBadModel, "size"},
        {R"({"size": 0})", ErrorCode::kBadModel, "size"},
        {R"({"crop_size": 1000000})", ErrorCode::kBadModel, "crop_size"},
        {R"({"image_mean": [0.5, 0.5]})", ErrorCode::kBadModel, "image_mean holds 2 values"},
        {R"({"image_std": [0.5, 0, 0.5]})", ErrorCode::kBadModel, "image_std must be positive"},
    };
    for (const Refusal& c : kCases) {
      CAPTURE(std::string(c.text));
      try {
        parse(c.text);
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
