// Times in prompts of Qwen3-VL; see also captioner_families_test.cpp. The golden is made by
// scripts/make_goldens_times.py.
#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "tests/model/captioner_golden.h"
#include "tests/model/support.h"
#include "text/tokenizer.h"

namespace caption {
namespace {

// The times of "<0.3 seconds>" in a text.
std::vector<std::string> times_in(std::string_view text) {
  constexpr std::string_view kEnd = " seconds>";
  std::vector<std::string> times;
  for (std::size_t end = text.find(kEnd); end != std::string_view::npos;
       end = text.find(kEnd, end + 1)) {
    const std::size_t begin = text.rfind('<', end) + 1;
    times.emplace_back(text.substr(begin, end - begin));
  }
  return times;
}

TEST_SUITE("model/qwen3_vl") {
  TEST_CASE("times are the reference's to the last digit") {
    const auto model = testing::CaptionerGolden("qwen3_vl", "untied_f32").open();
    const JsonObject golden = JsonObject::open(
        CAPTION_SOURCE_DIR "/tests/golden/times/qwen3_vl.json", ErrorCode::kBadReference);
    const std::vector<JsonObject> cases = golden.get_objects("cases");
    CHECK(cases.size() == 9);
    for (const JsonObject& c : cases) {
      const double fps = c.get_double("numerator", 0) / c.get_double("denominator", 0);
      CAPTURE(fps);
      const std::vector<std::int64_t> frames = c.get_ints("frames");
      model::ClipShape shape = {.num_frames = std::ssize(frames),
                                .frame = {.width_px = 70, .height_px = 50}};
      for (const std::int64_t frame : frames) {
        shape.times_s.push_back(static_cast<double>(frame) / fps);
      }
      const std::string text = model->tokenizer().decode(model->build_prompt("", shape).ids);
      CHECK(times_in(text) == c.get_strings("times"));
    }
  }
}

}  // namespace
}  // namespace caption
