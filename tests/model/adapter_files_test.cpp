// Adapters that cannot be applied: each is refused in one sentence that names what is wrong.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernels/convert.h"
#include "model/internal/adapter.h"
#include "tests/model/support.h"
#include "tests/support/drawn_checkpoint.h"
#include "weights/checkpoint.h"

namespace caption {
namespace {

namespace fs = std::filesystem;
using namespace testing;
using weights::WeightFormat;

constexpr const char* kConfig = "adapter_config.json";
constexpr const char* kWeights = "adapter_model.safetensors";

fs::path case_folder(std::string_view name) {
  return fs::path(CAPTION_SOURCE_DIR) / "tests/golden/lora" / name;
}

void check_refused(const fs::path& folder, ErrorCode code,
                   std::initializer_list<const char*> message, const char* base = "llama_bf16",
                   const char* name = "") {
  try {
    model::open_model(tested_context(), golden_folder() / base, WeightFormat::kF32,
                      {.adapters = {{.folder = folder, .name = name}}});
    FAIL_CHECK("accepted");
  } catch (const Error& error) {
    const std::string what = error.what();
    CAPTURE(what);
    CHECK(error_code_name(error.code()) == error_code_name(code));
    CHECK(what.find('\n') == std::string::npos);
    CHECK(what.starts_with(folder.string()));
    for (const char* part : message) CHECK(what.find(part) != std::string::npos);
  }
}

void replace(const DrawnCheckpoint& adapter, const char* file, std::string_view from,
             std::string_view to) {
  replace_in_file(adapter.path() / file, from, to);
}

std::string f32_bytes(ConstView tensor) {
  Tensor values(DType::kF32, tensor.shape());
  ThreadPool pool(1);
  Stream stream(pool);
  kernels::convert(stream, tensor, values.view());
  return {reinterpret_cast<const char*>(values.as<float>()), values.size_bytes()};
}

// Writes matrices of f32, given by their bytes, as safetensors.
template <class ShapeOf>
void write_f32(const fs::path& path, const std::map<std::string, std::string>& tensors,
               const ShapeOf& shape_of) {
  std::string header = "{";
  std::string values;
  for (const auto& [name, bytes] : tensors) {
    const auto [rows, columns] = shape_of(name);
    header += (header.size() > 1 ? "," : "") + json_quote(name) + R"(:{"dtype":"F32","shape":[)" +
              std::to_string(rows) + "," + std::to_string(columns) + R"(],"data_offsets":[)" +
              std::to_string(values.size()) + "," + std::to_string(values.size() + bytes.size()) +
              "]}";
    values += bytes;
  }
  header += "}";
  header.append((8 - header.size() % 8) % 8, ' ');
  const std::uint64_t size = header.size();
  std::ofstream(path, std::ios::binary)
      << std::string(reinterpret_cast<const char*>(&size), sizeof size) << header << values;
}

// The matrices of the modules, with lora_A [2, columns] and lora_B [rows, 2].
struct SmallModule {
  const char* name;  // up to ".lora_A.weight"
  std::int64_t rows;
  std::int64_t columns;
};
fs::path write_small_adapter(const char* name, const std::vector<SmallModule>& modules) {
  const fs::path folder = fs::path(CAPTION_TEST_TMP) / name;
  fs::create_directories(folder);
  std::ofstream(folder / kConfig) << R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4})";
  std::map<std::string, std::string> tensors;
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> shapes;
  for (const SmallModule& module : modules) {
    const std::string a = std::string(module.name) + ".lora_A.weight";
    const std::string b = std::string(module.name) + ".lora_B.weight";
    shapes[a] = {2, module.columns};
    shapes[b] = {module.rows, 2};
  }
  for (const auto& [tensor, shape] : shapes) {
    tensors[tensor] =
        std::string(sizeof(float) * static_cast<std::size_t>(shape.first * shape.second), '\0');
  }
  write_f32(folder / kWeights, tensors, [&](const std::string& tensor) { return shapes[tensor]; });
  return folder;
}

TEST_SUITE("model/adapter_files") {
  TEST_CASE("files that are missing or broken") {
    const DrawnCheckpoint adapter(case_folder("llama_all"));
    SUBCASE("no configuration") {
      fs::remove(adapter.path() / kConfig);
      check_refused(adapter.path(), ErrorCode::kBadModel,
                    {kConfig, "is missing", "save_pretrained"});
    }
    SUBCASE("no weights") {
      fs::remove(adapter.path() / kWeights);
      check_refused(adapter.path(), ErrorCode::kBadModel, {kWeights, "is missing"});
    }
    SUBCASE("what is there is no regular file") {
      for (const char* const file : {kConfig, kWeights}) {
        CAPTURE(file);
        const fs::path path = adapter.path() / file;
        fs::rename(path, adapter.path() / "kept");
        REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
        check_refused(adapter.path(), ErrorCode::kBadModel,
                      {file, "is a FIFO, not a regular file"});
        fs::remove(path);
        fs::create_directory(path);
        check_refused(adapter.path(), ErrorCode::kBadModel,
                      {file, "is a folder, not a regular file"});
        fs::remove(path);
        fs::create_symlink("gone", path);
        check_refused(adapter.path(), ErrorCode::kBadModel,
                      {file, "is a link to a file that is not there"});
        fs::rename(adapter.path() / "kept", path);
      }
    }
    SUBCASE("weights as a pickle") {
      fs::rename(adapter.path() / kWeights, adapter.path() / "adapter_model.bin");
      check_refused(adapter.path(), ErrorCode::kUnavailable,
                    {"adapter_model.bin", "safetensors only", "save_pretrained"});
    }
    SUBCASE("a truncated file") {
      const fs::path path = adapter.path() / kWeights;
      fs::resize_file(path, fs::file_size(path) - 8);
      check_refused(adapter.path(), ErrorCode::kBadModel, {kWeights});
    }
    SUBCASE("broken JSON") {
      std::ofstream(adapter.path() / kConfig) << "{";
      check_refused(adapter.path(), ErrorCode::kBadModel, {kConfig, "not valid JSON"});
    }
    SUBCASE("a number that is not finite") {
      const fs::path path = adapter.path() / kWeights;
      std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
      file.seekp(-4, std::ios::end);
      const float nan = std::numeric_limits<float>::quiet_NaN();
      file.write(reinterpret_cast<const char*>(&nan), sizeof nan);
      file.close();
      check_refused(adapter.path(), ErrorCode::kBadModel,
                    {kWeights, "lora_B.weight", "not finite"});
    }
  }

  TEST_CASE("a configuration that this build cannot apply") {
    struct Case {
      const char* from;
      const char* to;
      ErrorCode code;
      std::vector<const char*> message;
    };
    const std::string long_pattern = R"("rank_pattern": {")" + std::string(1025, 'a') + R"(": 4})";
    std::string many_patterns = R"("rank_pattern": {"m0": 4)";
    for (int i = 1; i < 4097; ++i) many_patterns += ", \"m" + std::to_string(i) + "\": 4";
    many_patterns += "}";
    std::string wide_patterns = R"("rank_pattern": {"m": 4)";
    for (int i = 0; i < 300; ++i) {
      wide_patterns += ", \"" + std::string(1000, 'a') + std::to_string(i) + "\": 4";
    }
    wide_patterns += "}";
    const Case cases[] = {
        {R"("r": 4)", R"("r": 0)", ErrorCode::kBadModel, {"r:", "expected 1 to", "found 0"}},
        {R"("r": 4)", R"("r": 5)", ErrorCode::kBadModel, {"lora_A [4, ", "rank 5"}},
        {R"("use_dora": false)",
         R"("use_dora": true)",
         ErrorCode::kUnavailable,
         {"use_dora", "DoRA"}},
        {R"("modules_to_save": null)",
         R"("modules_to_save": ["lm_head"])",
         ErrorCode::kUnavailable,
         {"modules_to_save"}},
        {R"("bias": "none")", R"("bias": "all")", ErrorCode::kUnavailable, {"bias \"all\""}},
        {R"("peft_type": "LORA")",
         R"("peft_type": "LOHA")",
         ErrorCode::kUnavailable,
         {"peft_type \"LOHA\""}},
        {R"("trainable_token_indices": null)",
         R"("trainable_token_indices": [3])",
         ErrorCode::kUnavailable,
         {"trainable_token_indices"}},
        {R"("lora_bias": false)", R"("lora_bias": true)", ErrorCode::kUnavailable, {"lora_bias"}},
        {R"("layer_replication": null)",
         R"("layer_replication": [[0, 2]])",
         ErrorCode::kUnavailable,
         {"layer_replication"}},
        {R"("use_qalora": false)",
         R"("use_qalora": true)",
         ErrorCode::kUnavailable,
         {"use_qalora"}},
        {R"("init_lora_weights": true)",
         R"("init_lora_weights": "pissa")",
         ErrorCode::kUnavailable,
         {"init_lora_weights \"pissa\""}},
        {R"("r": 4)",
         R"("r": 4, "lora_of_tomorrow": 3)",
         ErrorCode::kUnavailable,
         {"lora_of_tomorrow"}},
        {R"("rank_pattern": {})",
         R"("rank_pattern": {"(q|k)_proj": 2})",
         ErrorCode::kUnavailable,
         {"rank_pattern", "(q|k)_proj"}},
        {R"("lora_alpha": 10)",
         R"("lora_alpha": 1e9)",
         ErrorCode::kBadModel,
         {"lora_alpha of ", "at most 65536"}},
        {R"("alpha_pattern": {})",
         R"("alpha_pattern": {".*": -1e40})",
         ErrorCode::kBadModel,
         {"lora_alpha of ", "at most 65536"}},
        {R"("rank_pattern": {})",
         long_pattern.c_str(),
         ErrorCode::kBadModel,
         {"rank_pattern", "an expression of 1025 bytes", "at most 1024"}},
        {R"("rank_pattern": {})",
         many_patterns.c_str(),
         ErrorCode::kBadModel,
         {"rank_pattern", "4097 expressions", "at most 4096"}},
        {R"("rank_pattern": {})",
         wide_patterns.c_str(),
         ErrorCode::kBadModel,
         {"rank_pattern", "expressions of more than 262144 bytes"}},
        {R"("alpha_pattern": {})",
         R"("alpha_pattern": {"q_proj": 2, "self_attn.q_proj": 3})",
         ErrorCode::kUnavailable,
         {"alpha_pattern", "both match"}},
    };
    for (const Case& c : cases) {
      CAPTURE(c.to);
      const DrawnCheckpoint adapter(case_folder("llama_all"));
      replace(adapter, kConfig, c.from, c.to);
      std::initializer_list<const char*> file = {kConfig};
      check_refused(adapter.path(), c.code, file);
      for (const char* part : c.message) check_refused(adapter.path(), c.code, {part});
    }
  }

  TEST_CASE("keys that do not change the result are accepted, whatever they say") {
    const DrawnCheckpoint adapter(case_folder("llama_all"));
    replace(adapter, kConfig, R"("r": 4)",
            R"("r": 4, "lora_of_tomorrow": null, "another": [], "a_third": false)");
    replace(adapter, kConfig, R"("lora_dropout": 0.0)", R"("lora_dropout": 0.1)");
    replace(adapter, kConfig, R"("base_model_name_or_path": "llama_bf16")",
            R"("base_model_name_or_path": "somebody/something")");
    replace(adapter, kConfig, R"("init_lora_weights": true)", R"("init_lora_weights": "gaussian")");
    replace(adapter, kConfig, R"("task_type": null)", R"("task_type": "CAUSAL_LM")");
    replace(adapter, kConfig, R"("fan_in_fan_out": false)", R"("fan_in_fan_out": true)");
    CHECK_NOTHROW(model::open_model(tested_context(), golden_folder() / "llama_bf16",
                                    WeightFormat::kF32,
                                    {.adapters = {{.folder = adapter.path()}}}));
  }

  TEST_CASE("tensors that belong to no linear layer of the model") {
    const DrawnCheckpoint adapter(case_folder("llama_pattern"));
    SUBCASE("of another base") {
      check_refused(
          adapter.path(), ErrorCode::kBadModel,
          {"layers.0.mlp.down_proj", "lora_A", "the model's weight is", "another base model's"},
          "llama_old");
    }
    SUBCASE("a module that the model does not have") {
      replace(adapter, kWeights, "self_attn.v_proj", "self_attn.w_proj");
      replace(adapter, kConfig, "\"v_proj\"", "\"w_proj\"");
      replace(adapter, kConfig, "self_attn.v_proj", "self_attn.w_proj");
      check_refused(adapter.path(), ErrorCode::kBadModel,
                    {"self_attn.w_proj", "which the model does not have"});
    }
    SUBCASE("a module that is no target") {
      replace(adapter, kConfig, "\"v_proj\"", "\"k_proj\"");
      check_refused(adapter.path(), ErrorCode::kBadModel, {"v_proj", "target_modules"});
    }
    SUBCASE("a module that is excluded") {
      replace(adapter, kConfig, "\"exclude_modules\": null", "\"exclude_modules\": [\"v_proj\"]");
      check_refused(adapter.path(), ErrorCode::kBadModel, {"v_proj", "in exclude_modules"});
    }
    SUBCASE("a layer that is not to be adapted") {
      replace(adapter, kConfig, "\"layers_to_transform\": null", "\"layers_to_transform\": 1");
      check_refused(adapter.path(), ErrorCode::kBadModel, {"layers.0.", "layers_to_transform"});
    }
    SUBCASE("layers of another list") {
      replace(adapter, kConfig, "\"layers_to_transform\": null",
              "\"layers_to_transform\": [0, 1], \"layers_pattern\": \"blocks\"");
      replace(adapter, kConfig, "\"layers_pattern\": null,", "");
      check_refused(adapter.path(), ErrorCode::kBadModel, {"layers_to_transform"});
    }
    SUBCASE("DoRA's magnitude") {
      replace(adapter, kWeights, "0.self_attn.q_proj.lora_A.weight",
              "0.q_proj.lora_magnitude_vector__");
      check_refused(adapter.path(), ErrorCode::kUnavailable, {"lora_magnitude_vector", "DoRA"});
    }
    SUBCASE("an adapted embedding") {
      replace(adapter, kWeights, "0.mlp.down_proj.lora_A.weight", "0.embeds.lora_embedding_A.wei");
      check_refused(adapter.path(), ErrorCode::kUnavailable, {"lora_embedding_A", "embeddings"});
    }
    SUBCASE("a module that was saved whole") {
      replace(adapter, kWeights, "0.mlp.down_proj.lora_A.weight", "0.mlp.down_proj.the_w_.weight");
      check_refused(adapter.path(), ErrorCode::kUnavailable, {"the_w_.weight", "modules_to_save"});
    }
    SUBCASE("names of a state_dict in memory") {
      replace(adapter, kWeights, "layers.0.mlp.down_proj.lora_A.weight",
              "lay.mlp.down_proj.lora_A.def.weight_");
      check_refused(adapter.path(), ErrorCode::kUnavailable, {"MODULE.lora_A.weight"});
    }
    SUBCASE("half of a pair") {
      replace(adapter, kWeights, "0.mlp.down_proj.lora_A.weight", "0.mlp.down_pro2.lora_A.weight");
      check_refused(adapter.path(), ErrorCode::kBadModel, {"down_pro", "lora_", "is missing"});
    }
  }

  TEST_CASE("an adapter with a name may change the language model only") {
    const DrawnCheckpoint adapter(case_folder("llama_all"));
    check_refused(adapter.path(), ErrorCode::kUnavailable,
                  {"multi_modal_projector.linear_1", "language model only"}, "llama_bf16", "own");
  }

  TEST_CASE("a module that the adapter names twice") {
    const fs::path folder = write_small_adapter(
        "module_twice", {{"base_model.model.lm_head", 440, 64}, {"lm_head", 440, 64}});
    check_refused(folder, ErrorCode::kBadModel,
                  {kWeights, "lm_head.lora_A.weight occurs twice", "base_model.model."});
  }

  TEST_CASE("a weight that two modules of the adapter adapt") {
    model::Blueprint blueprint;
    blueprint.add_group({.part = model::Part::kTower});
    const model::LinearIds q = blueprint.add_linear("q.", {.out = 4, .in = 5, .has_bias = false},
                                                    weights::Role::kEncoderLinear);
    blueprint.set_other_layout(q, {"attn.qkv.", 0, 12});
    const auto check = [&](const fs::path& folder, const char* message) {
      const model::Adapter adapter = model::Adapter::open(folder);
      try {
        model::bind_terms(adapter, blueprint);
        FAIL_CHECK("accepted");
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::kBadModel);
        CHECK(std::string(error.what()).find(message) != std::string::npos);
      }
    };
    check(write_small_adapter("fused_twice", {{"attn.qkv", 12, 5}, {"q", 4, 5}}),
          "attn.qkv and q adapt the same weight");
    check(write_small_adapter("outer_twice", {{"q", 4, 5}, {"vision_tower.q", 4, 5}}),
          "q and vision_tower.q adapt the same weight");
  }

  TEST_CASE("an LM head that is the embedding cannot be adapted") {
    const DrawnCheckpoint adapter(case_folder("llama_head"));
    check_refused(adapter.path(), ErrorCode::kUnavailable, {"lm_head", "the embedding"},
                  "qwen3_shards");
  }

  TEST_CASE("the base weight that PEFT saves beside an adapted LM head must be the model's") {
    const DrawnCheckpoint adapter(case_folder("llama_head"));
    std::map<std::string, std::string> tensors;
    std::string base;
    {
      const auto file = weights::Checkpoint::open(adapter.path() / kWeights);
      for (const std::string& name : file.names()) tensors[name] = f32_bytes(*file.find(name));
      const auto model = weights::Checkpoint::open(golden_folder() / "llama_bf16");
      base = f32_bytes(*model.find("lm_head.weight"));
    }
    const auto write = [&](std::int64_t base_rows = 440) {
      write_f32(adapter.path() / kWeights, tensors,
                [&](const std::string& name) -> std::pair<std::int64_t, std::int64_t> {
                  if (name.find("base_layer") != std::string::npos) return {base_rows, 64};
                  if (name.find("lora_A") != std::string::npos) return {3, 64};
                  return {name.find("lm_head") != std::string::npos ? 440 : 64, 3};
                });
    };
    tensors["base_model.model.lm_head.base_layer.weight"] = base;
    write();
    CHECK_NOTHROW(model::open_model(tested_context(), golden_folder() / "llama_bf16",
                                    WeightFormat::kF32,
                                    {.adapters = {{.folder = adapter.path()}}}));
    tensors["base_model.model.lm_head.base_layer.weight"][2] ^= 64;
    write();
    CHECK_THROWS_WITH_AS(
        model::open_model(tested_context(), golden_folder() / "llama_bf16", WeightFormat::kF32,
                          {.adapters = {{.folder = adapter.path()}}}),
        doctest::Contains("lm_head.base_layer.weight"), Error);
    tensors["base_model.model.lm_head.base_layer.weight"] = base.substr(0, base.size() / 2);
    write(220);
    check_refused(adapter.path(), ErrorCode::kBadModel,
                  {"lm_head.base_layer.weight is [220, 64]", "the model's weight is [440, 64]"});
  }

  TEST_CASE("a module whose rows are several parameters of the model is divided among them") {
    const fs::path folder = fs::path(CAPTION_TEST_TMP) / "fused_adapter";
    fs::create_directories(folder);
    std::ofstream(folder / kConfig) << R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4})";
    Tensor a(DType::kF32, {2, 5});
    Tensor b(DType::kF32, {12, 2});
    for (Tensor* const tensor : {&a, &b}) {
      for (std::int64_t i = 0; i < tensor->num_elements(); ++i) {
        tensor->as<float>()[i] = static_cast<float>(i);
      }
    }
    const auto write = [&](std::int64_t rows) {
      write_f32(folder / kWeights,
                {{"base_model.model.attn.qkv.lora_A.weight", f32_bytes(a.view())},
                 {"base_model.model.attn.qkv.lora_B.weight", f32_bytes(b.view().rows(0, rows))}},
                [&](const std::string& name) -> std::pair<std::int64_t, std::int64_t> {
                  const bool is_a = name.find("lora_A") != std::string::npos;
                  return is_a ? std::pair<std::int64_t, std::int64_t>{2, 5}
                              : std::pair<std::int64_t, std::int64_t>{rows, 2};
                });
    };
    model::Blueprint blueprint;
    blueprint.add_group({.part = model::Part::kTower});
    std::vector<model::ParameterId> ids;
    for (const char* const name : {"q", "k", "v"}) {
      const model::LinearIds linear =
          blueprint.add_linear(std::string(name) + ".", {.out = 4, .in = 5, .has_bias = false},
                               weights::Role::kEncoderLinear);
      blueprint.set_other_layout(linear, {"attn.qkv.", 4 * std::ssize(ids), 12});
      ids.push_back(linear.weight);
    }
    write(12);
    const model::Adapter adapter = model::Adapter::open(folder);
    const std::vector<model::BoundTerm> bound = model::bind_terms(adapter, blueprint);
    REQUIRE(bound.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(bound[i].parameter == ids[i]);
      CHECK(bound[i].term.scale == 2.0F);
      CHECK(bound[i].term.a.shape() == Shape({2, 5}));
      REQUIRE(bound[i].term.b.shape() == Shape({4, 2}));
      CHECK(bound[i].term.b.as<float>()[0] == static_cast<float>(8 * i));
    }
    write(8);
    const model::Adapter shorter = model::Adapter::open(folder);
    CHECK_THROWS_WITH_AS(model::bind_terms(shorter, blueprint),
                         doctest::Contains("the model's weight is [12, 5]"), Error);
  }

  TEST_CASE("an adapter in the place of a model is told what it is") {
    const DrawnCheckpoint adapter(case_folder("llama_all"));
    CHECK_THROWS_WITH_AS(model::open_model(tested_context(), adapter.path(), WeightFormat::kF32),
                         doctest::Contains("is an adapter without its base model"), Error);
  }

  TEST_CASE("an adapter that is written while it is in use is noticed") {
    const DrawnCheckpoint adapter(case_folder("llama_all"));
    const auto model =
        model::open_model(tested_context(), golden_folder() / "llama_bf16", WeightFormat::kF32,
                          {.adapters = {{.folder = adapter.path()}}});
    CHECK(!model->find_changed_file().has_value());
    fs::resize_file(adapter.path() / kWeights, 100);
    REQUIRE(model->find_changed_file().has_value());
    CHECK(model->find_changed_file()->find(kWeights) != std::string::npos);
  }
}

}  // namespace
}  // namespace caption
