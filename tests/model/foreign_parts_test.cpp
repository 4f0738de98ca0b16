// Every family with a part that is another model's, or too much of something: each is refused in
// one sentence. What only one family refuses is in its own test.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "tests/model/captioner_golden.h"
#include "tests/model/support.h"

namespace caption {
namespace {

namespace fs = std::filesystem;
using namespace testing;
using weights::WeightFormat;

constexpr const char* kConfig = "config.json";
constexpr const char* kWeights = "model.safetensors";

// A golden checkpoint of each family, and names in its files.
struct Base {
  const char* family;
  const char* name;
  const char* tower;      // prefix of the tower's tensors
  const char* projector;  // a matrix, and its shape in the file's header
  const char* shape;
  const char* transposed;
  const char* token;  // a token without which there is no prompt
};
constexpr Base kBases[] = {
    {"internvl", "vit_300m_f32", "\"vision_tower.", "multi_modal_projector.linear_1.weight",
     "[48,128]", "[128,48]", "<img>"},
    {"internvl", "chat_6b", "\"vision_model.", "mlp1.1.weight", "[48,128]", "[128,48]", "<img>"},
    {"llava_next_video", "vicuna_conv_f32", "\"vision_tower.",
     "multi_modal_projector.linear_1.weight", "[48,36]", "[36,48]", "<video>"},
    {"llava_onevision", "qwen3_f32", "\"vision_tower.", "multi_modal_projector.linear_1.weight",
     "[48,36]", "[36,48]", "<video>"},
    {"qwen2_5_vl", "untied_f32", "\"visual.", "visual.merger.mlp.2.weight", "[64,192]", "[192,64]",
     "<|video_pad|>"},
    {"qwen3_vl", "untied_f32", "\"model.visual.", "model.visual.merger.linear_fc2.weight",
     "[64,192]", "[192,64]", "<|video_pad|>"},
};
bool is_qwen_vl(const Base& base) { return std::string_view(base.family).starts_with("qwen"); }

fs::path golden(const std::string& name) {
  return fs::path(CAPTION_SOURCE_DIR) / "tests/golden" / name;
}

// Checks that the folder is refused with one of the codes that end a run with 3 or 4.
void check_refused(const fs::path& folder, const std::vector<std::string>& message,
                   const std::vector<model::AdapterSource>& adapters = {}) {
  try {
    model::open_model(tested_context(), folder, WeightFormat::kF32, {.adapters = adapters});
    FAIL_CHECK("opened");
  } catch (const Error& error) {
    const std::string what = error.what();
    CAPTURE(what);
    CHECK((error.code() == ErrorCode::kBadModel || error.code() == ErrorCode::kUnavailable));
    CHECK(what.find('\n') == std::string::npos);
    CHECK(what.size() < 500);
    // The folder that is to be mended: an adapter's, or the model's.
    const fs::path& named = adapters.empty() ? folder : adapters.front().folder;
    CHECK(what.find(named.string()) != std::string::npos);
    for (const std::string& part : message) CHECK(what.find(part) != std::string::npos);
  }
}

// Opens each family's checkpoint after a change, which returns what the sentence must say.
void check_each(
    const std::function<std::vector<std::string>(const Base&, const fs::path&)>& change) {
  for (const Base& base : kBases) {
    CAPTURE(std::string(base.family) + "/" + base.name);
    const CaptionerGolden checkpoint(base.family, base.name);
    const std::vector<std::string> message = change(base, checkpoint.folder());
    check_refused(checkpoint.folder(), message);
  }
}

// Replaces a file's first JSON object under the key by null.
void set_null(const fs::path& path, const std::string& key) {
  std::string text = read_text_file(path);
  const std::size_t begin = text.find("\"" + key + "\": {");
  REQUIRE(begin != std::string::npos);
  const std::size_t end = text.find('}', begin);
  text.replace(begin, end + 1 - begin, "\"" + key + "\": null");
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

void copy_tokenizer(const std::string& name, const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(golden(name))) {
    fs::copy_file(entry.path(), folder / entry.path().filename(),
                  fs::copy_options::overwrite_existing);
  }
}

TEST_SUITE("model/foreign_parts") {
  TEST_CASE("the configuration of any other family") {
    for (const Base& base : kBases) {
      const CaptionerGolden checkpoint(base.family, base.name);
      for (const Base& other : kBases) {
        const bool is_chat = std::string_view(other.name).starts_with("chat");
        if (&other == &base) continue;
        CAPTURE(std::string(base.family) + "/" + base.name + " with " + other.family +
                (is_chat ? " (chat)" : ""));
        fs::copy_file(golden(std::string(other.family) + "/" + other.name) / kConfig,
                      checkpoint.folder() / kConfig, fs::copy_options::overwrite_existing);
        check_refused(checkpoint.folder(), {});
      }
    }
  }

  TEST_CASE("a family that nobody knows") {
    check_each([](const Base&, const fs::path& folder) -> std::vector<std::string> {
      std::ofstream(folder / kConfig) << R"({"model_type": "florence2"})";
      return {kConfig, "model_type \"florence2\" is not supported by this build"};
    });
  }

  TEST_CASE("weights without the tower") {
    check_each([](const Base& base, const fs::path& folder) -> std::vector<std::string> {
      std::string without = base.tower;
      without.back() = '_';
      replace_in_file(folder / kWeights, base.tower, without);
      return {folder, "is missing (looked for "};
    });
  }

  TEST_CASE("a projector of another width") {
    check_each([](const Base& base, const fs::path& folder) -> std::vector<std::string> {
      const std::string header =
          "\"" + std::string(base.projector) + "\":{\"dtype\":\"F32\",\"shape\":";
      replace_in_file(folder / kWeights, header + base.shape, header + base.transposed);
      return {kWeights, base.projector, "shape"};
    });
  }

  TEST_CASE("a tokenizer of three ids more than the embedding has rows") {
    check_each([](const Base&, const fs::path& folder) -> std::vector<std::string> {
      std::string more;  // up to id 450; the embedding's last row is 447
      for (int id = 437; id <= 450; ++id) {
        more += "\"" + std::to_string(id) + "\": {\"content\": \"<extra" + std::to_string(id) +
                ">\", \"special\": true, \"normalized\": false}, ";
      }
      replace_in_file(folder / "tokenizer_config.json", "\"430\": {", more + "\"430\": {");
      return {"it has 451 ids, the decoder's embedding 448 rows"};
    });
  }

  TEST_CASE("a tokenizer of another model") {
    check_each([](const Base& base, const fs::path& folder) -> std::vector<std::string> {
      copy_tokenizer(is_qwen_vl(base) ? "captioner_tokenizer" : "qwen_vl_tokenizer", folder);
      return {"the tokenizer is another model's"};
    });
  }

  TEST_CASE("an adapter of another base") {
    for (const Base& base : kBases) {
      CAPTURE(std::string(base.family) + "/" + base.name);
      const CaptionerGolden checkpoint(base.family, base.name);
      for (const char* const name : {"composed_vision", "qwen3_vl_all", "internvl_all"}) {
        if (std::string_view(name).starts_with(base.family)) continue;
        const DrawnCheckpoint adapter(golden(std::string("lora/") + name));
        check_refused(checkpoint.folder(), {adapter.path(), "another base model's"},
                      {{.folder = adapter.path()}});
      }
    }
  }

  TEST_CASE("a tower of a grid of which the file has no positions") {
    for (const Base& base : kBases) {
      if (is_qwen_vl(base)) continue;  // their towers take grids of any size
      CAPTURE(std::string(base.family) + "/" + base.name);
      const CaptionerGolden checkpoint(base.family, base.name);
      const fs::path config = checkpoint.folder() / kConfig;
      const std::string text = read_text_file(config);
      const std::size_t tower = text.find("\"vision_config\"");
      const std::size_t key = text.find("\"image_size\": ", tower);
      const std::size_t end = text.find_first_of("}]\"", text.find_first_of("0123456789", key));
      REQUIRE(end != std::string::npos);
      const bool is_list = text[end] == ']';
      const std::size_t stop = is_list ? end + 1 : text.find_first_of(",\n", key);
      std::ofstream(config, std::ios::trunc)
          << text.substr(0, key) << "\"image_size\": 8176" << text.substr(stop);
      check_refused(checkpoint.folder(), {});
    }
  }

  TEST_CASE("no sections of positions: rope_scaling of null") {
    for (const Base& base : kBases) {
      if (!is_qwen_vl(base)) continue;  // the others' goldens have rope_scaling of null
      CAPTURE(std::string(base.family));
      const CaptionerGolden checkpoint(base.family, base.name);
      set_null(checkpoint.folder() / kConfig, "rope_scaling");
      check_refused(checkpoint.folder(), {kConfig, "mrope_section must be three positive numbers"});
    }
  }

  TEST_CASE("a clip of one frame is captioned") {
    ThreadPool pool(2);
    Stream stream(tested_context(), pool);
    for (const Base& base : kBases) {
      CAPTURE(std::string(base.family) + "/" + base.name);
      const CaptionerGolden checkpoint(base.family, base.name);
      const auto model = checkpoint.open();
      const std::vector<GoldenClip> clips = checkpoint.clips(pool, *model);
      const Tensor& pixels = clips.front().pixel_values;
      const model::ClipShape one = {.num_frames = 1, .frame = clips.front().shape.frame};
      const Tensor vision = model->encode_frames(stream, pixels.view().rows(0, 1));
      CHECK(vision.dim(0) == model->vision_tokens(one));
      const model::PromptIds prompt = model->build_prompt("", one);
      CHECK(std::ssize(prompt.vision_positions) == vision.dim(0));
      const Greedy greedy = run_greedy(stream, *model, prompt, vision.view(), 4);
      CHECK(greedy.ids.size() == 4);
    }
  }
}

}  // namespace
}  // namespace caption
