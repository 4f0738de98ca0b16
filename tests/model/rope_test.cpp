// The frequencies of rotary embeddings compared with transformers.
#include "model/rope.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "model/internal/config.h"

namespace caption {
namespace {

TEST_SUITE("model/rope") {
  TEST_CASE("frequencies and the factor of the table are the reference's, for every kind") {
    const JsonObject golden = JsonObject::open(
        CAPTION_SOURCE_DIR "/tests/golden/rope/frequencies.json", ErrorCode::kBadReference);
    const std::vector<JsonObject> cases = golden.get_objects("cases");
    CHECK(cases.size() >= 12);
    for (const JsonObject& c : cases) {
      const JsonObject config = *c.get_object("config");
      const std::int64_t max_positions =
          config.require_int("max_position_embeddings", 1, 1'000'000);
      const model::RopeSpec spec = model::parse_rope(config, max_positions);
      CAPTURE(std::string(model::rope_kind_name(spec.kind)));
      CAPTURE(spec.factor);
      const std::vector<double> expected = c.get_doubles("inv_freq");
      const model::RotaryFrequencies found =
          model::make_rotary_frequencies(spec, 2 * std::ssize(expected));
      REQUIRE(found.inv_freq.shape() == Shape({std::ssize(expected)}));
      CHECK(found.attention_scaling == static_cast<float>(c.get_double("attention_scaling", 0)));
      // torch's pow() and the C library's are within 1 ulp of the exact power each, so they differ
      // by 2 at most. llama3 smooths with a share s = (rotations - low) / (high - low): rotations
      // of at most high = 4 that are off by 2 ulp change s by 8 / 3 ulp, and the result, which is
      // at least frequency / factor, by 8 / 3 * factor ulp; its own roundings add 3.
      const double ulps = spec.kind == model::RopeKind::kLlama3 ? 5 + 8.0 / 3 * spec.factor : 2.0;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        CAPTURE(i);
        const double found_here = static_cast<double>(found.inv_freq.as<float>()[i]);
        CHECK(std::abs(found_here - expected[i]) <=
              ulps * expected[i] * static_cast<double>(std::numeric_limits<float>::epsilon()));
      }
    }
  }

  TEST_CASE("dynamic scaling is the plain embedding up to the original length") {
    const model::RopeSpec dynamic = {
        .kind = model::RopeKind::kDynamic, .factor = 4, .original_max_position = 2048};
    const model::RotaryFrequencies found = model::make_rotary_frequencies(dynamic, 64);
    const model::RotaryFrequencies plain = model::make_rotary_frequencies({}, 64);
    for (std::int64_t i = 0; i < 32; ++i) {
      CHECK(found.inv_freq.as<float>()[i] == plain.inv_freq.as<float>()[i]);
    }
    CHECK(model::rope_max_positions(dynamic, 2048) == 2048);
  }
}

}  // namespace
}  // namespace caption
