// One model of each family, of some forms of codes and with an adapter, compared with what
// transformers and PEFT computed: what fits into the time of a run on the emulated GPU. Other
// suites have all of them.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <utility>

#include "tests/model/captioner_golden.h"
#include "tests/model/support.h"
#include "tests/support/drawn_checkpoint.h"

namespace caption {
namespace {

using testing::CaptionerGolden;

namespace fs = std::filesystem;

TEST_SUITE("model/one_of_each") {
  TEST_CASE("a model of each family") {
    for (const auto& [family, name] : {std::pair{"internvl", "vit_300m_f32"},
                                       {"llava_onevision", "qwen3_f32"},
                                       {"llava_next_video", "qwen3_conv_3"},
                                       {"qwen2_5_vl", "untied_f32"},
                                       {"qwen3_vl", "untied_f32"}}) {
      CAPTURE(std::string(family));
      CaptionerGolden(family, name).check_clips();
    }
  }

  TEST_CASE("a model of codes in nf4, and in 4-bit integers") {
    for (const char* const name : {"nf4_double", "packed_w4"}) {
      CAPTURE(std::string(name));
      CaptionerGolden("quantised_captioners", name).check_clips();
    }
  }

  TEST_CASE("an adapter that a sequence chooses") {
    const fs::path goldens = fs::path(CAPTION_SOURCE_DIR) / "tests/golden";
    const fs::path golden = goldens / "lora/qwen3_vl_text";
    const testing::DrawnCheckpoint adapter(golden);
    const std::string name =
        JsonObject::open(golden / "expected.json", ErrorCode::kBadReference).require_string("base");
    const testing::DrawnCheckpoint base(goldens / name);
    const auto model =
        model::open_model(testing::tested_context(), base.path(), weights::WeightFormat::kF32,
                          {.adapters = {{.folder = adapter.path(), .name = "own"}}});
    CHECK(model->decoder().num_adapters() == 1);
    testing::check_golden_clips(*model, golden, 0);
  }
}

}  // namespace
}  // namespace caption
