// Tests preset files: the installed ones, the user's, and the choice of `auto`.
#include "config/load_preset.h"
#include "config/fields.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "config/adapters.h"
#include "config/parse_preset.h"
#include "config/resolve.h"
#include "config/resources.h"
#include "tests/support/no_descriptors.h"

namespace caption::config {
namespace {

namespace fs = std::filesystem;

const fs::path kPresets = fs::path(CAPTION_SOURCE_DIR) / "presets";

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Machine machine_with(std::int64_t gpu_gib) {
  Machine machine;
  machine.num_cpus = 4;
  machine.memory_bytes = 64LL << 30;
  if (gpu_gib > 0) {
    machine.cuda_devices.push_back(
        {.name = "GPU", .compute_major = 8, .compute_minor = 0, .memory_bytes = gpu_gib << 30});
  }
  return machine;
}

TEST_SUITE("config/load_preset") {
  TEST_CASE("without a descriptor left, the machine is blamed and not the preset") {
    const auto code_of_loading = [](const std::string& name) {
      const test::NoDescriptors none;
      try {
        load_preset(name, {}, machine_with(0), false);
        return ErrorCode::kInternal;
      } catch (const Error& error) {
        return error.code();
      }
    };
    CHECK(code_of_loading("cpu") == ErrorCode::kOutOfMemory);
    CHECK(code_of_loading((kPresets / "cpu.yaml").string()) == ErrorCode::kOutOfMemory);
  }

  TEST_CASE("every file in presets/ loads, opens with a comment and round-trips") {
    int count = 0;
    for (const fs::directory_entry& entry : fs::directory_iterator(kPresets)) {
      const std::string name = entry.path().string();
      CAPTURE(name);
      if (entry.path().filename() == "prices") continue;  // tables of plan/price_table.h
      ++count;
      const std::string text = read_file(entry.path());
      CHECK(text.starts_with("# For "));
      CHECK(text.find("\n# Costs ") != std::string::npos);
      const Preset preset = parse_preset(text, name);
      Preset again = parse_preset(to_yaml(preset), name);
      CHECK(again == preset);
    }
    CHECK(count == 6);
  }

  TEST_CASE("auto follows the machine and says why") {
    struct Case {
      std::int64_t gpu_gib;
      bool has_kernels;
      const char* name;
    };
    constexpr Case kCases[] = {{0, false, "cpu"},  {80, false, "cpu"}, {0, true, "cpu"},
                               {8, true, "cpu"},   {15, true, "t4"},   {23, true, "l4"},
                               {40, true, "a100"}, {80, true, "h100"}, {140, true, "h100"}};
    for (const Case& c : kCases) {
      CAPTURE(c.gpu_gib);
      CAPTURE(c.has_kernels);
      const LoadedPreset loaded = load_preset("auto", {}, machine_with(c.gpu_gib), c.has_kernels);
      CHECK(loaded.preset.name == c.name);
      CHECK(loaded.note.find(c.name) != std::string::npos);
      CHECK(loaded.preset.device.type != DeviceType::kAuto);
    }
  }

  TEST_CASE("keys of an auto preset lie on top of the chosen one") {
    const fs::path file = fs::path(CAPTION_TEST_TMP) / "mine.yaml";
    std::ofstream(file) << "device: {type: auto}\ngeneration: {seed: 99}\n";
    const LoadedPreset loaded = load_preset(file.string(), {}, machine_with(0), false);
    CHECK(loaded.path == file);
    CHECK(loaded.preset.generation.seed == 99);
    CHECK(loaded.preset.model.path == "samples/demo-model");
    CHECK(loaded.preset.name == "cpu");
  }

  TEST_CASE("what an auto preset and the chosen one name is found beside each of them") {
    const fs::path folder = fs::path(CAPTION_TEST_TMP) / "layers";
    fs::remove_all(folder);
    const fs::path own = folder / "own";
    const fs::path user = folder / "user";
    for (const char* const name : {"draft", "adapter"}) fs::create_directories(own / name);
    for (const char* const name : {"model", "adapter"}) fs::create_directories(user / name);
    std::ofstream(own / "cpu.yaml")
        << "device: {type: cpu}\nmodel: {path: missing, adapter: [x=adapter]}\n"
           "engine: {kv_cache_dir: kept}\nspeculative: {draft_model: draft}\n";
    std::ofstream(user / "mine.yaml") << "device: {type: auto}\nmodel: {path: model}\n";
    std::ofstream(user / "other.yaml") << "device: {type: auto}\nmodel: {adapter: [adapter]}\n";
    const auto load = [&](const char* name) {
      return load_preset((user / name).string(), {.own_presets = own}, machine_with(0), false);
    };
    const LoadedPreset mine = load("mine.yaml");
    CHECK(mine.locations.preset_folder == user);
    CHECK(find_model(mine.preset.model.path, mine.locations) == user / "model");
    CHECK(find_model(mine.preset.speculative.draft_model, mine.locations) == own / "draft");
    CHECK(mine.preset.model.adapter == std::vector<std::string>{"x=" + (own / "adapter").string()});
    CHECK(mine.preset.engine.kv_cache_dir == (own / "kept").string());
    const LoadedPreset other = load("other.yaml");
    CHECK(other.preset.model.path == "missing");
    CHECK(adapter_sources(other.preset.model.adapter, other.locations).front().folder ==
          user / "adapter");
  }

  TEST_CASE("the videos of examples lie beside the preset that names them") {
    const fs::path file = fs::path(CAPTION_TEST_TMP) / "shown.yaml";
    for (const char* const type : {"auto", "cpu"}) {
      std::ofstream(file) << "device: {type: " << type << "}\ngeneration: {examples: ["
                          << "{video: clips/a.mp4, caption: b}, {video: /a.mp4, caption: c}]}\n";
      const LoadedPreset loaded = load_preset(file.string(), {}, machine_with(0), false);
      const std::string beside = (fs::path(CAPTION_TEST_TMP) / "clips/a.mp4").string();
      REQUIRE(loaded.preset.generation.examples.size() == 2);
      CHECK(loaded.preset.generation.examples[0] ==
            "{\"video\": \"" + beside + "\", \"caption\": \"b\"}");
      CHECK(loaded.preset.generation.examples[1] == R"({"video": "/a.mp4", "caption": "c"})");
    }
  }

  TEST_CASE("what a preset from a FIFO names is relative to the working folder") {
    const std::string fifo = (fs::path(CAPTION_TEST_TMP) / "fifo.yaml").string();
    fs::remove(fifo);
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    std::thread writer([&] {
      std::ofstream(fifo) << "device: {type: cpu}\nengine: {kv_cache_dir: cache}\n"
                             "speculative: {method: archive, draft_from: [known.jsonl]}\n";
    });
    const LoadedPreset loaded = load_preset(fifo, {}, machine_with(0), false);
    writer.join();
    CHECK(loaded.locations.preset_folder.empty());
    CHECK(loaded.preset.engine.kv_cache_dir == "cache");
    CHECK(loaded.preset.speculative.draft_from == std::vector<std::string>{"known.jsonl"});
  }

  TEST_CASE("the cache and the captions to guess from lie beside the preset that names them") {
    const fs::path folder = CAPTION_TEST_TMP;
    std::ofstream(folder / "kept.yaml")
        << "engine: {kv_cache_dir: kept}\n"
           "speculative: {draft_from: [a.jsonl, /b.jsonl, \"-\"]}\n";
    const Preset preset =
        load_preset((folder / "kept.yaml").string(), {}, machine_with(0), false).preset;
    CHECK(preset.engine.kv_cache_dir == (folder / "kept").string());
    CHECK(preset.engine.prefix_cache);
    CHECK(preset.speculative.draft_from ==
          std::vector<std::string>{(folder / "a.jsonl").string(), "/b.jsonl", "-"});
  }

  TEST_CASE("the user's folder comes first") {
    const fs::path folder = fs::path(CAPTION_TEST_TMP) / "own_presets";
    fs::remove_all(folder);
    fs::create_directories(folder);
    std::ofstream(folder / "cpu.yaml") << "generation: {seed: 5}\n";
    const Locations locations{.own_presets = folder};
    CHECK(load_preset("cpu", locations, machine_with(0), false).preset.generation.seed == 5);
    CHECK(load_preset("cpu", {}, machine_with(0), false).preset.generation.seed == 20);
    std::ofstream(folder / "cpu.yml") << "generation: {seed: 6}\n";
    std::ofstream(folder / "short.yml") << "generation: {seed: 7}\n";
    CHECK(load_preset("cpu", locations, machine_with(0), false).preset.generation.seed == 5);
    CHECK(load_preset("short", locations, machine_with(0), false).preset.generation.seed == 7);
  }

  TEST_CASE("names that are not there are refused with those that are") {
    const auto message = [](const std::string& name) {
      try {
        load_preset(name, {}, machine_with(0), false);
        return std::string();
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::kBadPreset);
        return std::string(error.what());
      }
    };
    CHECK(message("h200").find("a100, auto, cpu, h100, l4, t4") != std::string::npos);
    CHECK(message("none.yaml").find("No such file") != std::string::npos);
    CHECK(message("/tmp").find("folder") != std::string::npos);
  }
}

}  // namespace
}  // namespace caption::config
