// Tests `caption-cli inspect` on models, parts of models, adapters and names: what it says, and
// that inspect, plan and run agree about what does not run.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "tests/app/folders.h"
#include "tests/app/process.h"
#include "tests/support/drawn_checkpoint.h"
#include "tests/video/make_clip.h"

namespace caption::test {
namespace {

namespace fs = std::filesystem;
using testing::DrawnCheckpoint;

fs::path golden(const char* name) { return fs::path(CAPTION_SOURCE_DIR) / "tests/golden" / name; }

// No model is in any cache of this environment.
const Environment kNowhere = {
    {"HF_HOME", "/nowhere"}, {"HF_HUB_CACHE", "/nowhere"}, {"HOME", "/nowhere"}};

JsonObject inspect_json(const std::string& name, int exit_code = 0) {
  const Finished finished = run_cli({"inspect", "--json", name}, "", kNowhere);
  CAPTURE(finished.err);
  CHECK(finished.exit_code == exit_code);
  return JsonObject::parse(finished.out, "stdout", ErrorCode::kInternal);
}

std::int64_t number(const JsonObject& json, const char* object, const char* key) {
  return json.get_object(object)->require_int(key, 0, std::int64_t{1} << 60);
}

// Returns the line of a report that begins with this name, without the name.
std::string line_of(const std::string& out, const std::string& name) {
  const std::size_t begin = out.find("\n  " + name + " ");
  if (begin == std::string::npos) return {};
  const std::size_t value = out.find_first_not_of(' ', begin + name.size() + 3);
  return out.substr(value, out.find('\n', value) - value);
}

TEST_SUITE("app/inspect_model") {
  TEST_CASE("a model's folder is described, and runs as it says") {
    struct Case {
      const char* golden_case;
      const char* model_type;
      const char* text_type;
      bool keeps_size;
    };
    const Case cases[] = {{"qwen3_vl/untied_f32", "qwen3_vl", "qwen3", true},
                          {"qwen2_5_vl/hub_layout", "qwen2_5_vl", "qwen2", true},
                          {"internvl/chat_300m", "internvl_chat", "qwen2", false},
                          {"llava_onevision/shards_f16", "llava_onevision", "qwen3", false},
                          {"llava_next_video/mistral_f16", "llava_next_video", "mistral", false}};
    for (const Case& c : cases) {
      CAPTURE(std::string(c.golden_case));
      const DrawnCheckpoint model(golden(c.golden_case));
      const std::string folder = model.path().string();
      const JsonObject json = inspect_json(folder);
      CHECK(json.require_string("kind") == "captioner");
      CHECK(json.require_string("model_type") == c.model_type);
      CHECK(json.require_string("text_type") == c.text_type);
      CHECK(json.get_bool("runs", false));
      CHECK(json.get_object("vision")->get_bool("keeps_size", !c.keeps_size) == c.keeps_size);
      CHECK(number(json, "parameters", "total") == number(json, "parameters", "tower") +
                                                       number(json, "parameters", "projector") +
                                                       number(json, "parameters", "text"));
      CHECK(number(json, "weights", "files") ==
            std::count_if(fs::directory_iterator(folder), fs::directory_iterator(),
                          [](const fs::directory_entry& entry) {
                            return entry.path().extension() == ".safetensors";
                          }));
      const Finished planned =
          run_cli({"plan", "--model", folder, "--bandwidth", "100", "--flops", "1000", "--json"});
      const JsonObject plan = JsonObject::parse(planned.out, "plan", ErrorCode::kBadModel);
      for (const auto& [option, layout] :
           {std::pair{"f32", "f32"}, std::pair{"bf16", "bf16"}, std::pair{"w8a8", "w8a8"},
            std::pair{"int8", "int8, groups of 128"}, std::pair{"nf4", "nf4"}}) {
        CAPTURE(std::string(option));
        CHECK(number(json, "bytes_by_dtype", option) == number(plan, "bytes_by_layout", layout));
      }
      const bool is_f32 = std::string(c.golden_case).find("f32") != std::string::npos;
      CHECK(number(json, "bytes_by_dtype", "f32") >=
            (is_f32 ? 4 : 2) * number(json, "parameters", "total"));
      CHECK(json.get_object("here")->get_bool("fits", false));
      CHECK(number(json, "here", "concurrent_clips") >= 1);
      const std::vector<JsonObject> presets = json.get_objects("presets");
      const auto cpu = std::find_if(presets.begin(), presets.end(), [](const JsonObject& preset) {
        return preset.require_string("name") == "cpu";
      });
      REQUIRE(cpu != presets.end());
      CHECK(cpu->get_bool("runs", false));
      CHECK_FALSE(contains(cpu->require_string("note"), "`quantize`"));
      const auto l4 = std::find_if(presets.begin(), presets.end(), [](const JsonObject& preset) {
        return preset.require_string("name") == "l4";
      });
      REQUIRE(l4 != presets.end());
      CHECK_FALSE(l4->get_bool("runs", true));
      CHECK(
          contains(l4->require_string("note"), " at a time in awq, which `quantize` makes of it"));
      const std::string text = run_cli({"inspect", folder}).out;
      CHECK(line_of(text, "runs") == "yes");
      CHECK(contains(line_of(text, "vision"), "of 1280x720 pixels") == c.keeps_size);
      CHECK(contains(line_of(text, "tokenizer"), "BPE"));
    }
  }

  TEST_CASE("a model beside own presets has the same name for every command") {
    const TemporaryFolder folder;
    const fs::path presets = folder.path() / "presets";
    fs::create_directories(presets);
    fs::create_directories(folder.path() / "work");
    for (const char* name : {"auto.yaml", "cpu.yaml"}) {
      fs::copy_file(fs::path(CAPTION_SOURCE_DIR) / "presets" / name, presets / name);
    }
    fs::copy_file(presets / "cpu.yaml", folder.path() / "work/outside.yaml");
    const fs::path demo = fs::path(CAPTION_SOURCE_DIR) / "samples/demo-model";
    fs::create_directories(folder.path() / "models/deep");
    fs::create_directory_symlink(demo, folder.path() / "models/deep/mine");
    fs::create_directory_symlink(demo, presets / "mine");
    Environment environment = kNowhere;
    environment.emplace_back("CAPTION_PRESETS", presets.string());
    const std::string video = sample_video("city-000-h264.mp4").string();
    const auto exit_code_of = [&](const std::vector<std::string>& arguments) {
      const Finished finished =
          run_cli_in({.folder = folder.path() / "work", .environment = environment}, arguments);
      CAPTURE(finished.err);
      CHECK_MESSAGE(finished.err.find("hf download") == std::string::npos, finished.err);
      return finished.exit_code;
    };
    for (const std::string name : {"models/deep/mine", "mine"}) {
      CAPTURE(name);
      CHECK(exit_code_of({"run", "--dry-run", "--model", name, video}) == 0);
      CHECK(exit_code_of(
                {"run", "--dry-run", "--preset", "outside.yaml", "--model", name, video}) == 0);
      CHECK(exit_code_of({"plan", "--model", name}) == 0);
      CHECK(exit_code_of({"inspect", name}) == 0);
      CHECK(exit_code_of({"quantize", name, "--format", "int8", "-o", name.substr(0, 4)}) == 0);
    }
    CHECK(exit_code_of({"inspect", "models/deep/other"}) == 2);
  }

  TEST_CASE("presets that would make other codes of codes say so") {
    const TemporaryFolder folder;
    const fs::path made = folder.path() / "made";
    const fs::path demo = fs::path(CAPTION_SOURCE_DIR) / "samples/demo-model";
    REQUIRE(
        run_cli({"quantize", demo.string(), "--format", "gptq", "-o", made.string()}).exit_code ==
        0);
    std::map<std::string, std::string> notes;
    std::map<std::string, bool> runs;
    for (const JsonObject& preset : inspect_json(made.string()).get_objects("presets")) {
      notes[preset.require_string("name")] = preset.require_string("note");
      runs[preset.require_string("name")] = preset.get_bool("runs", false);
    }
    CHECK(runs.at("cpu"));
    CHECK(
        contains(notes.at("l4"), "in awq, which `quantize` makes of the model that this one was"));
    CHECK(contains(notes.at("t4"), "in nf4, which would round its codes a second time"));
    CHECK_FALSE(runs.at("l4"));
    CHECK_FALSE(runs.at("t4"));
  }

  TEST_CASE("a preset that a model does not fit says which of its options is why") {
    const TemporaryFolder presets;
    write_text(presets.path() / "cpu.yaml",
               "device: {type: cpu}\nengine: {kv_cache_bytes: 1000}\n");
    write_text(presets.path() / "wide.yaml",
               "device: {type: cpu}\nengine: {max_num_seqs: 2}\ngeneration: {num_beams: 4}\n");
    Environment environment = kNowhere;
    environment.emplace_back("CAPTION_PRESETS", presets.path().string());
    const std::string text = run_cli({"inspect", "demo"}, "", environment).out;
    CAPTURE(text);
    CHECK(contains(text,
                   "cpu   does not fit: kv_cache_bytes 1000 too small for the KV pages of a clip"));
    CHECK(contains(text, "wide  does not fit: 4 beams for max_num_seqs 2"));
    CHECK(contains(line_of(text, "here"), "one video needs "));
  }

  TEST_CASE("the vision tokens are those of a run") {
    const DrawnCheckpoint model(golden("internvl/vit_300m_f32"));
    const std::string folder = model.path().string();
    const std::string video = sample_video("city-000-h264.mp4").string();
    const Finished run = run_cli({"run", "-q", video, "--model", folder, "--max-new-tokens", "2"});
    CAPTURE(run.err);
    REQUIRE(run.exit_code == 0);
    CHECK(number(inspect_json(folder), "vision", "tokens") ==
          parse_records(run.out).at(0).vision_tokens);
  }

  TEST_CASE("parts of a composed model say where they belong") {
    const DrawnCheckpoint adapter(golden("lora/composed_qv"));
    struct Case {
      fs::path path;
      const char* kind;
      const char* place;
    };
    const Case cases[] = {
        {golden("model/composed/vision"), "vision_tower", "model.vision"},
        {golden("model/composed/llm"), "language_model", "model.llm"},
        {golden("model/composed/projector_mlp.safetensors"), "projector", "model.projector"},
        {adapter.path(), "adapter", "--adapter"},
    };
    for (const Case& c : cases) {
      CAPTURE(c.kind);
      const JsonObject json = inspect_json(c.path.string());
      CHECK(json.require_string("kind") == c.kind);
      CHECK(json.get_bool("runs", false));
      const Finished finished = run_cli({"inspect", c.path.string()});
      CHECK(finished.exit_code == 0);
      CHECK(contains(line_of(finished.out, "is"), c.place));
    }
    const std::string text = run_cli({"inspect", adapter.path().string()}).out;
    CHECK(line_of(text, "base") == "composed");
    CHECK(line_of(text, "modules") == "4: q_proj, v_proj");
    CHECK(contains(line_of(text, "rank"), "8, alpha 4"));
    CHECK(contains(run_cli({"inspect", cases[2].path.string()}).out, "2: 32 to 48, 48 to 48"));
  }

  TEST_CASE("an adapter inside a folder and those of --adapter are said") {
    const DrawnCheckpoint adapter(golden("lora/llama_all"));
    const TemporaryFolder place;
    const fs::path folder = place.path() / "model";
    fs::copy(golden("model/llama_bf16"), folder);
    for (const auto& entry : fs::directory_iterator(adapter.path())) {
      if (entry.path().filename().string().starts_with("adapter_")) {
        fs::copy(entry.path(), folder / entry.path().filename());
      }
    }
    const DrawnCheckpoint other(golden("lora/llama_head"));
    const Finished finished =
        run_cli({"inspect", folder.string(), "--adapter", "b=" + other.path().string()});
    CHECK(finished.exit_code == 0);
    CHECK(contains(finished.out, "  adapter     " + folder.string() + ", "));
    CHECK(contains(finished.out, "  adapter     b: " + other.path().string() + ", "));
  }

  TEST_CASE("only --hash reads the weights and says the digest") {
    const TemporaryFolder cache;
    const Environment environment = {{"XDG_CACHE_HOME", cache.path().string()}};
    const std::string model = (fs::path(CAPTION_SOURCE_DIR) / "samples/demo-model").string();
    CHECK_FALSE(contains(run_cli({"inspect", model}, "", environment).out, "  hash "));
    CHECK_FALSE(fs::exists(cache.path() / "caption-cli"));
    CHECK(line_of(run_cli({"inspect", "--hash", model}, "", environment).out, "hash").size() == 64);
    CHECK(fs::exists(cache.path() / "caption-cli/digests"));
  }

  TEST_CASE("a name that is not here is answered with what it needs") {
    const JsonObject json = inspect_json("Qwen/Qwen3-VL-8B-Instruct", 3);
    CHECK(json.require_string("kind") == "absent");
    CHECK_FALSE(json.get_bool("runs", true));
    CHECK(number(json, "parameters", "total") == 8'767'123'696);
    CHECK(json.get_objects("presets").size() == 5);
    const std::string refusal = json.require_string("refusal");
    for (const char* part :
         {"about 17.5 GB to download", "17.5 GB in bf16", "in int8", "in nf4",
          "preset l4 is made for it", "get it with `hf download Qwen/Qwen3-VL-8B-Instruct`"}) {
      CAPTURE(part);
      CHECK(contains(refusal, part));
    }
    CHECK(inspect_json("qwen3-vl-8b", 3).require_string("refusal") == refusal);
    CHECK(inspect_json("Qwen/Qwen3-8B", 3).require_string("kind") == "absent_part");

    const Finished unknown = run_cli({"inspect", "Qwen/Qwen3-VL-8B"}, "", kNowhere);
    CHECK(unknown.exit_code == 3);
    CHECK(unknown.out.empty());
    CHECK(contains(unknown.err, "the nearest known name is Qwen/Qwen3-VL-8B-Instruct\n"));
  }

  TEST_CASE("inspect, plan and run refuse with one sentence and one exit code") {
    const TemporaryFolder folder;
    const auto at = [&](const char* name) { return (folder.path() / name).string(); };
    const DrawnCheckpoint adapter(golden("lora/composed_qv"));
    fs::create_directory(at("other"));
    write_text(at("other") + "/config.json", R"({"model_type": "gpt_oss"})");
    fs::create_directory(at("empty"));
    fs::copy(golden("model/llama_bf16"), at("quantised"));
    std::string config = read_text(at("quantised") + "/config.json");
    config.insert(config.find('{') + 1, R"("quantization_config": {"quant_method": "exl2",)"
                                        R"( "bits": 4},)");
    write_text(at("quantised") + "/config.json", config);
    fs::copy(golden("model/llama_bf16"), at("cut"));
    fs::resize_file(at("cut") + "/model.safetensors", 1000);
    write_text(at("model.gguf"), "no GGUF");
    struct Case {
      std::string model;
      int exit_code;
      const char* message;
    };
    const Case cases[] = {
        {at("other"), 4, "model_type \"gpt_oss\" is not supported"},
        {at("empty"), 3, "config.json is missing"},
        {at("quantised"), 4, "quant_method \"exl2\" is not read by this build"},
        {at("cut"), 3, "model.safetensors"},
        {"Qwen/Qwen3-VL-8B-Instruct", 3, "about 17.5 GB to download"},
        {"qwen3-vl-8b", 3, "hf download Qwen/Qwen3-VL-8B-Instruct"},
        {"OpenGVLab/InternVL3_5-8B", 3, "hf download OpenGVLab/InternVL3_5-8B`"},
        {"Qwen/Qwen2.5-VL-7B-Instruct-NVFP4", 4, "quantised by NVFP4"},
        {"Qwen/Qwen3-VL-30B-A3B-Instruct", 4, "by its name it is a mixture of experts"},
        {"nobody/nothing-7B", 3, "hf download nobody/nothing-7B"},
    };
    const std::string video = sample_video("city-000-h264.mp4").string();
    for (const Case& c : cases) {
      CAPTURE(c.model);
      const Finished run = run_cli({"run", "-q", video, "--model", c.model}, "", kNowhere);
      const Finished plan =
          run_cli({"plan", "--bandwidth", "9", "--flops", "9", "--model", c.model}, "", kNowhere);
      const Finished inspect = run_cli({"inspect", c.model}, "", kNowhere);
      CHECK(run.exit_code == c.exit_code);
      CHECK(plan.exit_code == c.exit_code);
      CHECK(inspect.exit_code == c.exit_code);
      // Without "error: caption-cli: " and the end of the line.
      const std::string sentence = run.err.substr(20, run.err.size() - 21);
      CAPTURE(sentence);
      CHECK(contains(sentence, c.message));
      CHECK(contains(plan.out + plan.err, sentence));
      CHECK(contains(inspect.out + inspect.err, sentence));
    }
    // An adapter alone is no model, but it may be looked into.
    for (const char* command : {"run", "plan"}) {
      std::vector<std::string> arguments = {command, "--model", adapter.path().string()};
      if (std::string(command) == "run") arguments.push_back(video);
      const Finished finished = run_cli(arguments);
      CHECK(finished.exit_code == 3);
      CHECK(contains(finished.err, "is an adapter without its base model"));
    }
  }

  TEST_CASE("a folder of videos, a file of weights and --json of a video say what to do") {
    const TemporaryFolder folder;
    const auto at = [&](const char* name) { return (folder.path() / name).string(); };
    fill(folder.path() / "videos", {"a.mp4"});
    const Finished videos = run_cli({"inspect", at("videos")});
    CHECK(videos.exit_code == 3);
    CHECK(contains(videos.err, "to look into the videos of a folder, name them"));

    const fs::path model = golden("model/llama_bf16/model.safetensors");
    const Finished weights = run_cli({"inspect", model.string()});
    CHECK(weights.exit_code == 3);
    CHECK(contains(weights.out, "weights without their configuration"));

    CHECK(run_cli({"inspect", "--json", sample_video("city-000-h264.mp4").string()}).exit_code ==
          2);
    write_text(at("my.yaml"), "model: samples/demo-model\n");
    const Finished preset = run_cli({"inspect", at("my.yaml")});
    CHECK(preset.exit_code == 2);
    CHECK(contains(preset.err, at("my.yaml") + ": is a preset; `caption-cli presets --show " +
                                   at("my.yaml") +
                                   "` prints its options, `caption-cli plan "
                                   "--preset " +
                                   at("my.yaml") + "`"));
    CHECK(run_cli({"presets", "--show", at("my.yaml")}).exit_code == 0);
    // A video that is not there is no name of a model.
    for (const char* const video : {"videos/gone.mp4", "videos/gone.MP4", "videos/gone.mpeg"}) {
      CHECK(contains(run_cli({"inspect", video}).err, "no such file or folder"));
    }
  }

  TEST_CASE("what a model's files say of themselves moves no cursor and makes no line") {
    const TemporaryFolder folder;
    write_text(folder.path() / "config.json",
               R"({"model_type": "llama\u001b[2J\n  runs        yes", "architectures": ["X"]})");
    const Finished finished = run_cli({"inspect", folder.path().string()}, "", kNowhere);
    CHECK(finished.exit_code == 4);
    CHECK(line_of(finished.out, "is") ==
          "llama\uFFFD[2J\uFFFD  runs        yes, which this build does not run");
    CHECK(line_of(finished.out, "runs").starts_with("no: "));
    CHECK(finished.out.find('\x1b') == std::string::npos);
    const JsonObject json = inspect_json(folder.path().string(), 4);
    CHECK(json.require_string("model_type") == "llama\x1b[2J\n  runs        yes");
  }

  TEST_CASE("a missing tokenizer_config.json is warned of, with what is assumed") {
    const TemporaryFolder place;
    const std::string folder = (place.path() / "model").string();
    fs::copy(golden("model/llama_bf16"), folder);
    fs::remove(folder + "/tokenizer_config.json");
    const std::string video = sample_video("city-000-h264.mp4").string();
    for (const std::vector<std::string>& arguments :
         {std::vector<std::string>{"inspect", folder},
          {"run", video, "--model", folder, "--max-new-tokens", "1"}}) {
      const Finished finished = run_cli(arguments);
      CAPTURE(finished.err);
      CHECK(finished.exit_code == 0);
      CHECK(contains(finished.err, "warning: text: " + folder +
                                       ": tokenizer_config.json is missing; assumed are "
                                       "LlamaTokenizer, add_bos_token true"));
    }
  }
}

}  // namespace
}  // namespace caption::test
