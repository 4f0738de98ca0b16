// The file of the layers that self-drafts leave out.
#include "config/self_draft.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"

namespace caption::config {
namespace {

namespace fs = std::filesystem;

const std::string kHash(64, 'a');

KeptLayers some_layers() {
  return {.model_hash = parse_sha256(kHash).value(),
          .num_layers = 6,
          .left_out = {.layers = {1, 3, 4}, .acceptance = 0.75, .cost = 0.5, .gain = 1.25}};
}

// An empty folder of this test.
fs::path new_folder(const std::string& name) {
  const fs::path folder = fs::path(CAPTION_TEST_TMP) / name;
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

std::string file_with(const std::string& hash, const std::string& layers,
                      const std::string& left_out) {
  return R"({"self_draft":1,"model_hash":")" + hash + R"(","layers":)" + layers +
         R"(,"left_out":)" + left_out + R"(,"acceptance":0.5,"cost":0.5,"gain":1.5})";
}

TEST_SUITE("config/self_draft") {
  TEST_CASE("layers are read as they were written, in a folder that is made") {
    const fs::path folder = new_folder("self-draft-written");
    const fs::path path = folder / "new" / "layers.json";
    for (KeptLayers layers :
         {some_layers(), KeptLayers{.model_hash = {}, .num_layers = 2, .left_out = {}}}) {
      write_layers(layers, path);
      const KeptLayers read = read_layers(path);
      CHECK(read.model_hash == layers.model_hash);
      CHECK(read.num_layers == layers.num_layers);
      CHECK(read.left_out.layers == layers.left_out.layers);
      CHECK(read.left_out.acceptance == layers.left_out.acceptance);
      CHECK(read.left_out.cost == layers.left_out.cost);
      CHECK(read.left_out.gain == layers.left_out.gain);
    }
  }

  TEST_CASE("what is wrong in a file is a sentence that names it") {
    const fs::path folder = new_folder("self-draft-wrong");
    const fs::path path = folder / "layers.json";
    const auto says = [&](const std::string& text, const char* part) {
      CAPTURE(text);
      write(path, text);
      CHECK_THROWS_WITH(read_layers(path), doctest::Contains(part));
      CHECK_THROWS_WITH(read_layers(path), doctest::Contains("layers.json"));
    };
    says("", "layers.json");
    says(R"({"self_draft":1,)", "layers.json");
    says(R"({"self_draft":2})", "this version reads 1");
    says(file_with("ab", "6", "[1]"), "64 hexadecimal digits");
    says(file_with(kHash, "0", "[]"), "layers");
    for (const char* const left_out : {"[6]", "[3,1]", "[2,2]", "[-1]"}) {
      says(file_with(kHash, "6", left_out), "expected ascending ones from 0 to 5");
    }
    says(file_with(kHash, "2", "[0,1]"), "all layers");
    says(file_with(kHash, "6", "\"all\""), "left_out");
    says(R"({"self_draft":1,"model_hash":")" + kHash + R"(","layers":6})", "left_out is missing");
    std::string no_cost = file_with(kHash, "6", "[1]");
    no_cost.replace(no_cost.find("\"cost\":0.5"), 10, "\"cost\":0.0");
    says(no_cost, "cost is 0");
    std::string no_gain = file_with(kHash, "6", "[1]");
    no_gain.replace(no_gain.find("gain"), 4, "pain");
    says(no_gain, "gain: is missing");
    const std::string whole = file_with(kHash, "6", "[1]");
    for (std::size_t size = 0; size < whole.size(); ++size) {  // truncated anywhere
      write(path, whole.substr(0, size));
      CHECK_THROWS_AS(read_layers(path), Error);
    }
  }

  TEST_CASE("files are beside the model, and in the cache by the model's hash") {
    const fs::path folder = new_folder("self-draft-files");
    const fs::path model = folder / "model";
    fs::create_directory(model);
    write(folder / "model.gguf", "");
    Locations locations;
    locations.self_drafts = "/cache/self-drafts";
    Preset preset;
    preset.model.path = model.string();
    const Sha256 hash = some_layers().model_hash;
    CHECK(
        layer_files(preset, locations, hash, false) ==
        std::vector<fs::path>{model / "self-draft.json", "/cache/self-drafts/" + kHash + ".json"});
    CHECK(layer_files(preset, locations, hash, true) ==
          std::vector<fs::path>{"/cache/self-drafts/" + kHash + ".json"});
    locations.self_drafts.clear();
    CHECK(layer_files(preset, locations, hash, false) ==
          std::vector<fs::path>{model / "self-draft.json"});
    preset.model.path = (folder / "model.gguf").string();
    CHECK(layer_files(preset, locations, hash, false).front() ==
          folder / "model.gguf.self-draft.json");
  }
}

}  // namespace
}  // namespace caption::config
