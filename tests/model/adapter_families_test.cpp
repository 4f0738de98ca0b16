// Adapters (LoRA) of the captioner families compared with PEFT in float32: merged into tower,
// projector and language model, or beside the language model's weights as sequences choose them.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tests/model/captioner_golden.h"
#include "tests/model/support.h"

namespace caption {
namespace {

namespace fs = std::filesystem;
using namespace testing;
using weights::WeightFormat;

// An adapter tests/golden/lora/<name> with drawn weights, and the checkpoint of its base.
class TunedGolden {
 public:
  explicit TunedGolden(std::string_view name)
      : folder_(goldens() / "lora" / name), base_(goldens() / base_name()), adapter_(folder_) {}

  // Opens the base with the adapter, under a name if one is given.
  std::unique_ptr<model::CaptionModel> open(WeightFormat format, const char* name = "") const {
    return model::open_model(tested_context(), base_.path(), format,
                             {.adapters = {{.folder = adapter_.path(), .name = name}}});
  }
  const fs::path& folder() const { return folder_; }

 private:
  static fs::path goldens() { return fs::path(CAPTION_SOURCE_DIR) / "tests/golden"; }
  std::string base_name() const {
    return JsonObject::open(folder_ / "expected.json", ErrorCode::kBadReference)
        .require_string("base");
  }

  fs::path folder_;
  DrawnCheckpoint base_;
  DrawnCheckpoint adapter_;
};

// One family on the mirror, where a step costs milliseconds more.
bool is_tested(std::string_view name) {
  return tested_context().device == Device::kCpu || name.starts_with("qwen3_vl");
}

TEST_SUITE("model/adapter_families") {
  TEST_CASE("an adapter of tower, projector and language model gives what PEFT gives") {
    for (const char* const name :
         {"internvl_all", "llava_onevision_all", "qwen2_5_vl_all", "qwen3_vl_all"}) {
      if (!is_tested(name)) continue;
      CAPTURE(std::string(name));
      const TunedGolden golden(name);
      const auto model = golden.open(WeightFormat::kF32);
      CHECK(model->decoder().num_adapters() == 0);
      check_golden_clips(*model, golden.folder());
      CHECK_THROWS_WITH_AS(golden.open(WeightFormat::kF32, "own"),
                           doctest::Contains("language model only"), Error);
    }
  }

  TEST_CASE("so does one of the language model, merged or chosen by a sequence") {
    for (const char* const name : {"internvl_text", "llava_onevision_text", "qwen2_5_vl_text",
                                   "qwen3_vl_text", "qwen3_vl_qv", "qwen3_vl_mlp"}) {
      if (!is_tested(name)) continue;
      CAPTURE(std::string(name));
      const TunedGolden golden(name);
      check_golden_clips(*golden.open(WeightFormat::kF32), golden.folder());
      const auto choosing = golden.open(WeightFormat::kF32, "own");
      CHECK(choosing->decoder().num_adapters() == 1);
      check_golden_clips(*choosing, golden.folder(), 0);
    }
  }
}

}  // namespace
}  // namespace caption
