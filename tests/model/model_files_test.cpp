// A model's files: its identity, files written while it is open, and adapters.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "model/internal/parts.h"
#include "tests/model/support.h"
#include "weights/checkpoint.h"

namespace caption {
namespace {

namespace fs = std::filesystem;
using namespace testing;
using weights::WeightFormat;

constexpr const char* kWeights = "model.safetensors";

Sha256 hash_of(const fs::path& folder) {
  return model::open_model(testing::tested_context(), folder, WeightFormat::kF32)->content_hash();
}

// Copies a composed model into a folder that a test may write to.
model::ComposedSource copy_composed(const char* copy_name) {
  const fs::path folder = copy_checkpoint("composed", copy_name);
  model::ComposedSource source = composed_source();
  source.vision = folder / "vision";
  source.projector = folder / "projector_mlp.safetensors";
  source.llm = folder / "llm";
  return source;
}

// A model that checks its files as all models do, but builds no prompts.
class BareModel final : public model::PartsCaptionModel {
 public:
  using PartsCaptionModel::PartsCaptionModel;
  model::PromptIds build_prompt(const model::Conversation& /*conversation*/,
                                const model::ClipShape& /*clip*/) const override {
    return {};
  }
  std::string_view family() const override { return "bare"; }
};

std::string message_of(const std::function<void()>& act, ErrorCode code) {
  try {
    act();
  } catch (const Error& error) {
    CHECK(error_code_name(error.code()) == error_code_name(code));
    return error.what();
  }
  FAIL_CHECK("accepted");
  return "";
}

TEST_SUITE("model/model_files") {
  TEST_CASE("the identity of a model follows every file and setting, and no name of a folder") {
    const Sha256 hash = open_case("llama_bf16")->content_hash();
    const fs::path folder = copy_checkpoint("llama_bf16", "identity");
    CHECK(hash_of(folder) == hash);
    SUBCASE("a weight") {
      std::fstream file(folder / kWeights, std::ios::binary | std::ios::in | std::ios::out);
      file.seekg(-1, std::ios::end);
      const char last = static_cast<char>(file.get() ^ 1);
      file.seekp(-1, std::ios::end);
      file.put(last);
      file.close();
      CHECK(hash_of(folder) != hash);
    }
    SUBCASE("the configuration") {
      replace_in_file(folder / "config.json", "\"factor\": 2.5", "\"factor\": 2.0");
      CHECK(hash_of(folder) != hash);
    }
    SUBCASE("a file of the tokenizer") {
      std::ofstream(folder / "added_tokens.json", std::ios::app) << "\n";
      CHECK(hash_of(folder) != hash);
    }
    SUBCASE("a file that was not there") {
      std::ofstream(folder / "generation_config.json") << "{}";
      CHECK(hash_of(folder) != hash);
    }
    SUBCASE("a file that belongs to nothing") {
      std::ofstream(folder / "README.md") << "text";
      CHECK(hash_of(folder) == hash);
    }
  }

  TEST_CASE("what is no regular file is refused by its name and kind, and not passed over") {
    struct Kind {
      const char* text;
      void (*make)(const fs::path& path);
    };
    const Kind kinds[] = {
        {"is a link to a file that is not there",
         [](const fs::path& path) { fs::create_symlink("gone", path); }},
        {"is a FIFO, not a regular file",
         [](const fs::path& path) { REQUIRE(::mkfifo(path.c_str(), 0600) == 0); }},
        {"is a folder, not a regular file",
         [](const fs::path& path) { fs::create_directory(path); }}};
    for (const Kind& kind : kinds) {
      for (const char* const name :
           {"added_tokens.json", "chat_template.jinja", "config.json", "generation_config.json",
            "preprocessor_config.json", "special_tokens_map.json", "tokenizer.json",
            "tokenizer_config.json", "video_preprocessor_config.json", "model.safetensors"}) {
        CAPTURE(kind.text);
        CAPTURE(name);
        const fs::path folder = copy_checkpoint("llama_bf16", "dangling");
        fs::remove(folder / name);
        kind.make(folder / name);
        try {
          hash_of(folder);
          FAIL_CHECK("it was passed over");
        } catch (const Error& error) {
          const std::string message = error.what();
          CAPTURE(message);
          CHECK(error.code() == ErrorCode::kBadModel);
          CHECK(message.find((folder / name).string() + ": " + kind.text) != std::string::npos);
        }
      }
    }
  }

  TEST_CASE("the identity of a composed model follows each of its parts") {
    model::ComposedSource source = copy_composed("composed_identity");
    const auto hash = [&] {
      return model::open_composed(testing::tested_context(), source, WeightFormat::kF32)
          ->content_hash();
    };
    const Sha256 first = hash();
    CHECK(open_case("composed_mlp")->content_hash() == first);
    source.projector = golden_folder() / "composed/projector_linear.safetensors";
    const Sha256 second = hash();
    CHECK(second != first);
    source.drop_cls = false;
    CHECK(hash() != second);
  }

  TEST_CASE("the identity is that of the configuration as it was read") {
    const fs::path folder = copy_checkpoint("llama_bf16", "identity_late");
    const auto model = model::open_model(testing::tested_context(), folder, WeightFormat::kF32);
    replace_in_file(folder / "config.json", "\"factor\": 2.5", "\"factor\": 2.0");
    CHECK(model->content_hash() == open_case("llama_bf16")->content_hash());
    CHECK_FALSE(model->find_changed_file().has_value());  // config.json is not read again
  }

  TEST_CASE("weights that are cut short while the model is open are named, and nothing crashes") {
    for (const bool is_hashed : {false, true}) {
      const fs::path folder = copy_checkpoint("llama_bf16", "cut_short");
      const auto model = model::open_model(testing::tested_context(), folder, WeightFormat::kBF16);
      CHECK_FALSE(model->find_changed_file().has_value());
      if (is_hashed) model->content_hash();
      fs::resize_file(folder / kWeights, 4096);
      ThreadPool pool(1);
      Stream stream(testing::tested_context(), pool);
      const model::PromptIds prompt = {.ids = {1, 40, 50, 60}, .vision_positions = {}};
      Sequence sequence(model->decoder(), DType::kF32, 4);
      sequence.prefill(stream, prompt, ConstView{}, 4);  // the lost pages read as zeros
      const std::string message = model->find_changed_file().value_or("");
      CHECK(message.find((folder / kWeights).string()) == 0);
      CHECK(message.find("run again with files that nobody writes") != std::string::npos);
      if (!is_hashed) CHECK_THROWS_AS(model->content_hash(), Error);
    }
  }

  TEST_CASE("every file of a composed model is watched") {
    const model::ComposedSource source = copy_composed("composed_watched");
    for (const fs::path& path :
         {source.vision / kWeights, source.projector, source.llm / kWeights}) {
      const auto model =
          model::open_composed(testing::tested_context(), source, WeightFormat::kF32);
      CHECK_FALSE(model->find_changed_file().has_value());
      fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(1));
      CHECK(model->find_changed_file().value_or("").find(path.string()) == 0);
    }
  }

  TEST_CASE("files that are written while the model is being opened end in an error") {
    const fs::path folder = copy_checkpoint("llama_bf16", "while_opening");
    const JsonObject config = JsonObject::open(folder / "config.json", ErrorCode::kBadModel);
    SUBCASE("weights") {
      // The file is truncated after its weights were read and before the model is constructed.
      std::vector<std::unique_ptr<weights::Source>> sources;
      sources.push_back(std::make_unique<weights::Checkpoint>(weights::Checkpoint::open(folder)));
      model::Parts parts;
      model::place_parts(parts, model::kLlavaNextVideo.describe(config), std::move(sources),
                         WeightFormat::kF32);
      fs::resize_file(folder / kWeights, 100);
      CHECK(message_of([&] { BareModel(std::move(parts)); }, ErrorCode::kBadModel)
                .find((folder / kWeights).string() + " changed while it is in use") == 0);
    }
    SUBCASE("configuration") {
      model::Parts parts;
      parts.configs.push_back(model::read_config_folder(folder));
      std::ofstream(folder / "tokenizer_config.json", std::ios::app) << "\n";
      const auto open = [&] {
        model::kLlavaNextVideo.open(model::ModelFolder(folder), config, WeightFormat::kF32,
                                    std::move(parts));
      };
      CHECK(message_of(open, ErrorCode::kBadModel)
                .find("its configuration changed while it was read") != std::string::npos);
    }
  }

  TEST_CASE("half an adapter beside the weights is refused by the name of the other half") {
    struct Case {
      const char* present;
      const char* missing;
    };
    constexpr Case kHalves[] = {{"adapter_config.json", "adapter_model.safetensors"},
                                {"adapter_model.safetensors", "adapter_config.json"},
                                {"adapter_model.bin", "adapter_config.json"}};
    for (const Case& c : kHalves) {
      CAPTURE(c.present);
      const fs::path folder = copy_checkpoint("llama_bf16", "adapter");
      std::ofstream(folder / c.present) << "{}";
      const std::string message = message_of(
          [&] { model::open_model(testing::tested_context(), folder, WeightFormat::kF32); },
          ErrorCode::kBadModel);
      CHECK(message.starts_with((folder / c.missing).string() + " is missing"));
      for (const char* part : {"vision", "llm"}) {
        const model::ComposedSource source = copy_composed("composed_adapter");
        const fs::path inner = source.llm.parent_path() / part;
        std::ofstream(inner / c.present) << "{}";
        CHECK(message_of(
                  [&] {
                    model::open_composed(testing::tested_context(), source, WeightFormat::kF32);
                  },
                  ErrorCode::kBadModel)
                  .starts_with((inner / c.missing).string() + " is missing"));
      }
    }
  }
}

}  // namespace
}  // namespace caption
