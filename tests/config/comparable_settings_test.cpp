// Which settings of two runs are the same for the captions that they make.
#include "config/comparable_settings.h"

#include <doctest/doctest.h>

#include <string>

#include "config/identity.h"
#include "config/parse_preset.h"

namespace caption::config {
namespace {

const Context kContext;
const Sha256 kModel = sha256_of(std::string_view("weights"));

struct Flag {
  std::string key;
  std::string value;
};

Settings settings_of(const std::vector<Flag>& flags) {
  Preset preset;
  for (const Flag& flag : flags) apply_override(preset, {flag.key, flag.value, flag.key});
  return caption_settings(kContext, preset, kModel);
}

std::string value_of(const Settings& settings, const std::string& name) {
  for (const auto& [key, value] : settings) {
    if (key == name) return value;
  }
  return "not set";
}

TEST_SUITE("config/comparable_settings") {
  TEST_CASE("a manifest names what auto stands for") {
    CHECK(value_of(settings_of({}), "quantization.kv_cache") == "bf16");
    CHECK(value_of(settings_of({{"quantization.weights", "f32"}}), "quantization.kv_cache") ==
          "f32");
    CHECK(value_of(settings_of({{"quantization.kv_cache", "int8"}}), "quantization.kv_cache") ==
          "int8");
    CHECK(value_of(settings_of({}), "video.color_matrix") == "bt601");
    CHECK(settings_of({}) == settings_of({{"quantization.kv_cache", "bf16"}}));
    CHECK(settings_of({}) == settings_of({{"video.color_matrix", "bt601"}}));
    CHECK(settings_of({}) != settings_of({{"quantization.kv_cache", "f32"}}));
  }

  TEST_CASE("an option without effect beside the others is no part of the settings") {
    struct Row {
      Flag idle;      // it has no effect on its own
      Flag deciding;  // that gives it one
    };
    const Row rows[] = {
        {{"generation.seed", "7"}, {"generation.temperature", "0.5"}},
        {{"generation.top_p", "0.5"}, {"generation.temperature", "0.5"}},
        {{"generation.top_k", "7"}, {"generation.temperature", "0.5"}},
        {{"generation.length_penalty", "2"}, {"generation.num_beams", "2"}},
        {{"generation.early_stopping", "true"}, {"generation.num_beams", "2"}},
        {{"engine.attention_threshold", "0.5"}, {"engine.attention", "squeezed"}},
        {{"engine.attention_keep_tokens", "64"}, {"engine.attention", "topk-merge"}},
    };
    for (const Row& row : rows) {
      CAPTURE(row.idle.key);
      CHECK(settings_of({row.idle}) == settings_of({}));
      CHECK(settings_of({row.deciding, row.idle}) != settings_of({row.deciding}));
    }
    // It permits the rounding that quantization.weights chooses.
    CHECK(settings_of({{"quantization.requantize", "true"}}) == settings_of({}));
  }

  TEST_CASE("settings as earlier versions wrote them are those of the same run") {
    Settings there = settings_of({});
    for (auto& [key, value] : there) {
      if (key == "quantization.kv_cache" || key == "video.color_matrix") value = "auto";
    }
    there.emplace_back("generation.seed", "20");
    there.emplace_back("generation.top_p", "1");
    there.emplace_back("engine.attention_threshold", "0.01");
    there.emplace_back("quantization.requantize", "false");
    CHECK(there != settings_of({}));
    Settings now = settings_of({});
    make_comparable(there, now);
    CHECK(there == now);
  }

  TEST_CASE("the setting that takes the effect away is the only difference") {
    Settings there = settings_of({});
    Settings now = settings_of({{"generation.temperature", "0.5"}, {"generation.seed", "7"}});
    make_comparable(there, now);
    CHECK(value_of(there, "generation.temperature") == "0");
    CHECK(value_of(now, "generation.temperature") == "0.5");
    CHECK(value_of(now, "generation.seed") == "not set");
    std::erase_if(there, [](const auto& one) { return one.first == "generation.temperature"; });
    std::erase_if(now, [](const auto& one) { return one.first == "generation.temperature"; });
    CHECK(there == now);
  }

  TEST_CASE("what is no option, or has a value of another version, stays as it is") {
    const Settings foreign = {
        {"prompt", "auto"}, {"quantization.weights", "fp2"}, {"generation.new_option", "auto"}};
    CHECK(effective_settings(foreign) == foreign);
  }
}

}  // namespace
}  // namespace caption::config
