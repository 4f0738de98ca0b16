// Changed configurations of every family: each gives a blueprint, whose parameters can be counted,
// or is refused by an Error that names the folder.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "model/blueprint.h"
#include "model/read_blueprint.h"
#include "tests/support/mutants.h"

namespace caption::model {
namespace {

namespace fs = std::filesystem;

struct ConfigFile {
  std::string name;
  std::string text;
};

// The JSON files of the goldens' folders that say what a model is.
std::vector<std::vector<ConfigFile>> read_goldens() {
  std::vector<fs::path> folders;
  for (const char* const family : {"internvl", "llava_next_video", "llava_onevision", "model",
                                   "own_model", "qwen2_5_vl", "qwen3_vl"}) {
    for (const auto& entry :
         fs::directory_iterator(fs::path(CAPTION_SOURCE_DIR "/tests/golden") / family)) {
      if (fs::exists(entry.path() / "config.json")) folders.push_back(entry.path());
    }
  }
  std::sort(folders.begin(), folders.end());
  std::vector<std::vector<ConfigFile>> goldens;
  for (const fs::path& folder : folders) {
    std::vector<ConfigFile>& files = goldens.emplace_back();
    for (const char* const name :
         {"config.json", "preprocessor_config.json", "video_preprocessor_config.json"}) {
      if (!fs::exists(folder / name)) continue;
      std::ifstream file(folder / name, std::ios::binary);
      files.push_back({name, {std::istreambuf_iterator<char>(file), {}}});
    }
  }
  return goldens;
}

fs::path write_folder(const std::vector<ConfigFile>& files) {
  const fs::path folder = fs::path(CAPTION_TEST_TMP) / "mutated_configs";
  fs::remove_all(folder);
  fs::create_directories(folder);
  for (const ConfigFile& file : files) {
    std::ofstream(folder / file.name, std::ios::binary) << file.text;
  }
  return folder;
}

// Returns whether the folder has a blueprint.
bool has_blueprint(const fs::path& folder) {
  try {
    const Blueprint blueprint = read_blueprint(folder);
    const ParameterCounts counts = count_parameters(blueprint);
    CHECK(counts.projections >= 0);
    CHECK(counts.tower >= 0);
    CHECK(weight_bytes(blueprint, weights::WeightFormat::kF32) > 0);
    return true;
  } catch (const Error& error) {
    const std::string message = error.what();
    CAPTURE(message);
    CHECK((error.code() == ErrorCode::kBadModel || error.code() == ErrorCode::kUnavailable));
    CHECK(message.find(folder.string()) != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
    CHECK(is_valid_utf8(message));
    return false;
  }
}

TEST_SUITE("model/mutated_configs") {
  TEST_CASE("a changed configuration is a blueprint or an error that names it") {
    const auto goldens = read_goldens();
    REQUIRE(goldens.size() > 20);
    testing::Mutator mutator(7);
    constexpr int kMutants = 2000;
    int num_read = 0;
    for (int i = 0; i < kMutants; ++i) {
      CAPTURE(i);
      std::vector<ConfigFile> files = goldens[static_cast<std::size_t>(i) % goldens.size()];
      ConfigFile& changed = files[mutator.below(2) == 0 ? 0 : mutator.below(files.size())];
      const auto& other = goldens[mutator.below(goldens.size())];
      changed.text = mutator.json(changed.text, other.front().text);
      if (has_blueprint(write_folder(files))) ++num_read;
    }
    MESSAGE(num_read << " of " << kMutants << " have a blueprint");
    CHECK(num_read > kMutants / 20);
    CHECK(num_read < kMutants * 9 / 10);
  }

  TEST_CASE("no width makes the number of parameters overflow") {
    const std::string wide =
        R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 1048576,
            "intermediate_size": 1048576, "num_hidden_layers": 1024, "vocab_size": 16777216,
            "num_attention_heads": 1048576, "num_key_value_heads": 1048576, "head_dim": )";
    const fs::path folder = write_folder({{"config.json", wide + "4096}"}});
    CHECK_THROWS_WITH_AS(
        read_blueprint(folder, ModelPart::kText),
        doctest::Contains("1048576 attention heads of 4096 numbers are wider than 1048576"), Error);
  }
}

}  // namespace
}  // namespace caption::model
