// Tests which options a model's generation_config.json sets and which it does not.
#include "config/generation_defaults.h"
#include "config/fields.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "config/load_preset.h"
#include "config/parse_preset.h"

namespace caption::config {
namespace {

using Keys = std::set<std::string>;
using model::GenerationConfig;

GenerationConfig sampling_config() {
  GenerationConfig config;
  config.file = "generation_config.json";
  config.do_sample = true;
  config.temperature = 0.6;
  config.top_p = 0.8;
  config.top_k = 20;
  return config;
}

TEST_SUITE("config/generation_defaults") {
  TEST_CASE("the file counts where preset and flags are silent") {
    Preset preset = parse_preset("generation: {top_p: 0.95}\n", "p.yaml");
    apply_override(preset, {"generation.top_k", "7", "--top-k"});
    CHECK(apply_generation_config(preset, sampling_config()) == Keys{"generation.temperature"});
    CHECK(preset.generation.temperature == 0.6);
    CHECK(preset.generation.top_p == 0.95);
    CHECK(preset.generation.top_k == 7);
  }

  TEST_CASE("a value that was given counts even when it is the default") {
    Preset preset = parse_preset("generation: {temperature: 0.0}\n", "p.yaml");
    apply_override(preset, {"generation.num_beams", "1", "--num-beams"});
    GenerationConfig config = sampling_config();
    config.num_beams = 4;
    apply_generation_config(preset, config);
    CHECK(preset.generation.temperature == 0);
    CHECK(preset.generation.num_beams == 1);
    CHECK(preset.generation.top_k == 20);
  }

  TEST_CASE("without do_sample it is greedy, whatever the temperature") {
    for (const bool is_said : {false, true}) {
      Preset preset;
      GenerationConfig config = sampling_config();
      config.do_sample = is_said ? std::optional<bool>(false) : std::nullopt;
      apply_generation_config(preset, config);
      CHECK(preset.generation.temperature == 0);
    }
    Preset preset;
    GenerationConfig config = sampling_config();
    config.temperature.reset();
    apply_generation_config(preset, config);
    CHECK(preset.generation.temperature == 1);
    config.temperature = 1e-6;  // the value of Qwen2.5-VL
    apply_generation_config(preset, config);
    CHECK(preset.generation.temperature == 0);
  }

  TEST_CASE("all the other keys are taken too") {
    GenerationConfig config;
    config.repetition_penalty = 1.2;
    config.no_repeat_ngram_size = 3;
    config.num_beams = 2;
    config.length_penalty = 0.5;
    config.early_stopping = sampling::EarlyStopping::kNever;
    config.min_new_tokens = 4;
    config.max_new_tokens = 40;
    config.top_p = 0;
    Preset preset;
    CHECK(apply_generation_config(preset, config).size() == 8);
    CHECK(preset.generation.repetition_penalty == 1.2);
    CHECK(preset.generation.no_repeat_ngram_size == 3);
    CHECK(preset.generation.num_beams == 2);
    CHECK(preset.generation.length_penalty == 0.5);
    CHECK(preset.generation.early_stopping == EarlyStopping::kNever);
    CHECK(preset.generation.min_new_tokens == 4);
    CHECK(preset.generation.max_new_tokens == 40);
    CHECK(preset.generation.top_p == 1e-6);
    CHECK(apply_generation_config(preset, {}).empty());
  }

  TEST_CASE("of the shortest and the longest caption the one that was given wins") {
    GenerationConfig config;
    config.min_new_tokens = 64;
    Preset preset = parse_preset("generation: {max_new_tokens: 16}\n", "p.yaml");
    apply_generation_config(preset, config);
    CHECK(preset.generation.min_new_tokens == 16);

    config = {};
    config.max_new_tokens = 16;
    preset = parse_preset("generation: {min_new_tokens: 64}\n", "p.yaml");
    apply_generation_config(preset, config);
    CHECK(preset.generation.max_new_tokens == 64);

    // Two given values that contradict each other are left for the caller to report.
    preset = parse_preset("generation: {max_new_tokens: 16}\n", "p.yaml");
    apply_override(preset, {"generation.min_new_tokens", "64", "--min-new-tokens"});
    apply_generation_config(preset, config);
    CHECK(preset.generation.min_new_tokens == 64);
    CHECK(preset.generation.max_new_tokens == 16);
  }

  TEST_CASE("--quality and --speed are given") {
    GenerationConfig config = sampling_config();
    config.num_beams = 2;
    config.max_new_tokens = 7;
    Preset quality;
    apply_quality(quality);
    apply_generation_config(quality, config);
    CHECK(quality.generation.num_beams == 4);
    CHECK(quality.generation.temperature == 0);
    CHECK(quality.generation.max_new_tokens == 7);
    Preset speed;
    apply_speed(speed);
    apply_generation_config(speed, config);
    CHECK(speed.generation.temperature == 0.8);
    CHECK(speed.generation.top_p == 0.95);
    CHECK(speed.generation.max_new_tokens == 128);
  }

  TEST_CASE("a preset as a file says what came from the model, and then gives it itself") {
    Preset preset = parse_preset("generation: {top_p: 0.95}\n", "p");
    const Keys taken = apply_generation_config(preset, sampling_config());
    const std::string text = to_yaml(preset, taken);
    constexpr const char* kNote = ", from the model's generation_config.json\n";
    const auto line_of = [&](const std::string& key) {
      const std::size_t begin = text.find("  " + key + ": ");
      return text.substr(begin, text.find('\n', begin) + 1 - begin);
    };
    CHECK(line_of("temperature").ends_with(kNote));
    CHECK(line_of("top_k").ends_with(kNote));
    CHECK_FALSE(line_of("top_p").ends_with(kNote));
    Preset again = parse_preset(text, "p");
    CHECK(again == preset);
    CHECK(apply_generation_config(again, sampling_config()).empty());
  }

  TEST_CASE("keys given to auto count as much as those of the preset that it chooses") {
    const LoadedPreset loaded = load_preset("auto", {}, Machine{}, false);
    CHECK(loaded.preset.given.contains("generation.temperature"));
    CHECK_FALSE(loaded.preset.given.contains("generation.num_beams"));
    // The demonstration model's file has only values that the preset sets too.
    Preset preset = loaded.preset;
    const auto config = find_generation_config(preset, loaded.locations);
    REQUIRE(config.has_value());
    CHECK(apply_generation_config(preset, *config).empty());
    CHECK(preset == loaded.preset);
  }

  TEST_CASE("a model that is not here has no file") {
    Preset preset;
    preset.model.path = "nobody/nothing";
    CHECK_FALSE(find_generation_config(preset, {}).has_value());
  }
}

}  // namespace
}  // namespace caption::config
