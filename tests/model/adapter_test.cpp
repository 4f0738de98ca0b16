// Adapters (LoRA) compared with PEFT in float32: merged, applied beside the weights, and inside a
// model's folder.
#include <doctest/doctest.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "model/internal/low_rank.h"
#include "model/internal/module_pattern.h"
#include "tests/model/support.h"
#include "tests/support/drawn_checkpoint.h"

namespace caption {
namespace {

namespace fs = std::filesystem;
using namespace testing;
using model::AdapterSource;
using model::CaptionModel;
using weights::WeightFormat;

constexpr double kTolerance = 1e-4;  // bound of the differences of f32 logits and features

struct AdapterCase {
  const char* name;
  bool is_of_text;  // changes the language model alone
};
constexpr AdapterCase kCases[] = {
    {"llama_all", false},   {"llama_pattern", false}, {"llama_old_text", true},
    {"llama_head", true},   {"qwen3_layers", false},  {"composed_llm", true},
    {"composed_mlp", true}, {"composed_qv", true},    {"composed_vision", false},
};

fs::path case_folder(std::string_view name) {
  return fs::path(CAPTION_SOURCE_DIR) / "tests/golden/lora" / name;
}

std::unique_ptr<CaptionModel> open_base(const JsonObject& golden, WeightFormat format,
                                        const std::vector<AdapterSource>& adapters) {
  const std::string base = golden.require_string("base");
  if (base.starts_with("composed")) {
    return model::open_composed(tested_context(), composed_source(), format,
                                {.adapters = adapters});
  }
  return model::open_model(tested_context(), golden_folder() / base, format,
                           {.adapters = adapters});
}

// A golden and its model with the adapters of some cases.
struct Run {
  Run(std::string_view name, WeightFormat format, const std::vector<AdapterSource>& adapters)
      : Run(name, [&](const JsonObject& base) { return open_base(base, format, adapters); }) {}
  template <class Open>
  Run(std::string_view name, const Open& open)
      : golden(JsonObject::open(case_folder(name) / "expected.json", ErrorCode::kBadReference)),
        model(open(golden)),
        pixel_values(golden_pixel_values(pool, *model, golden)),
        vision(model->encode_frames(stream, pixel_values.view())),
        prompt(model->build_prompt(model->default_prompt(), {.num_frames = pixel_values.dim(0)})) {}

  Greedy greedy(std::optional<std::int32_t> adapter = std::nullopt) {
    const auto count = std::ssize(golden.get_ints("greedy"));
    return run_greedy(stream, *model, prompt, vision.view(), count, DType::kF32, adapter);
  }

  ThreadPool pool{2};
  Stream stream{tested_context(), pool};
  JsonObject golden;
  std::unique_ptr<CaptionModel> model;
  Tensor pixel_values;
  Tensor vision;
  model::PromptIds prompt;
};

void check_equals_reference(Run& run, std::optional<std::int32_t> adapter = std::nullopt) {
  const std::vector<double> features = run.golden.get_doubles("features");
  const Tensor vision = to_host(run.stream, run.vision.view());
  CHECK(max_difference(std::span(vision.as<float>(), features.size()), features) < kTolerance);
  const Greedy greedy = run.greedy(adapter);
  CHECK(max_difference(greedy.first_logits, run.golden.get_doubles("logits")) < kTolerance);
  CHECK(max_difference(greedy.first_logits, run.golden.get_doubles("merged_logits")) < kTolerance);
  const std::vector<std::int64_t> ids(greedy.ids.begin(), greedy.ids.end());
  CHECK(ids == run.golden.get_ints("greedy"));
  CHECK(max_difference(row_of(greedy.last_logits, greedy.last_logits.dim(0) - 1),
                       run.golden.get_doubles("last_logits")) < kTolerance);
}

TEST_SUITE("model/adapter") {
  TEST_CASE("an adapter of the whole model gives what PEFT gives") {
    for (const AdapterCase& c : kCases) {
      CAPTURE(c.name);
      const DrawnCheckpoint adapter(case_folder(c.name));
      Run run(c.name, WeightFormat::kF32, {{.folder = adapter.path()}});
      CHECK(run.model->decoder().num_adapters() == 0);
      check_equals_reference(run);
    }
  }

  TEST_CASE("so does an adapter that a sequence chooses, beside one that it does not") {
    const DrawnCheckpoint other(case_folder("composed_qv"));
    for (const AdapterCase& c : kCases) {
      if (!c.is_of_text) continue;
      CAPTURE(c.name);
      const DrawnCheckpoint adapter(case_folder(c.name));
      std::vector<AdapterSource> adapters = {{.folder = adapter.path(), .name = "own"}};
      const bool is_composed = std::string_view(c.name).starts_with("composed");
      if (is_composed) adapters.insert(adapters.begin(), {.folder = other.path(), .name = "other"});
      Run run(c.name, WeightFormat::kF32, adapters);
      CHECK(run.model->decoder().num_adapters() == std::ssize(adapters));
      check_equals_reference(run, static_cast<std::int32_t>(adapters.size()) - 1);
    }
  }

  TEST_CASE("a sequence that chooses no adapter has the bits of a model without adapters") {
    const DrawnCheckpoint adapter(case_folder("composed_llm"));
    for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kInt4}) {
      Run with("composed_llm", format, {{.folder = adapter.path(), .name = "one"}});
      Run without("composed_llm", format, {});
      const Greedy a = with.greedy();
      const Greedy b = without.greedy();
      CHECK(a.ids == b.ids);
      CHECK(max_difference(a.first_logits, std::span<const float>(b.first_logits)) == 0.0);
      CHECK(with.model->content_hash() == without.model->content_hash());
    }
  }

  TEST_CASE("an adapter inside a model's folder is applied, and part of the model's identity") {
    const DrawnCheckpoint adapter(case_folder("llama_all"));
    const fs::path folder = copy_checkpoint("llama_bf16", "inner_adapter");
    const Sha256 plain =
        model::open_model(tested_context(), folder, WeightFormat::kF32)->content_hash();
    for (const char* name : {"adapter_config.json", "adapter_model.safetensors"}) {
      fs::copy_file(adapter.path() / name, folder / name);
    }
    Run run("llama_all", [&](const JsonObject&) {
      return model::open_model(tested_context(), folder, WeightFormat::kF32);
    });
    check_equals_reference(run);
    CHECK(run.model->content_hash() != plain);
  }

  TEST_CASE("so are those inside the parts of a composed model") {
    const DrawnCheckpoint of_llm(case_folder("composed_llm"));
    const DrawnCheckpoint of_vision(case_folder("composed_vision"));
    const fs::path folder = copy_checkpoint("composed", "inner_adapters");
    model::ComposedSource source = composed_source();
    source.vision = folder / "vision";
    source.llm = folder / "llm";
    const auto add = [](const DrawnCheckpoint& adapter, const fs::path& part) {
      for (const char* name : {"adapter_config.json", "adapter_model.safetensors"}) {
        fs::copy_file(adapter.path() / name, part / name);
      }
    };
    const auto open = [&](const JsonObject&) {
      return model::open_composed(tested_context(), source, WeightFormat::kF32);
    };
    add(of_vision, source.vision);
    Run vision_only("composed_vision", open);
    check_equals_reference(vision_only);
    add(of_llm, source.llm);
    Run both("composed_llm", open);
    CHECK(both.greedy().ids != vision_only.greedy().ids);
    // The same two adapters, named by the user.
    Run named("composed_llm", WeightFormat::kF32,
              {{.folder = of_llm.path()}, {.folder = of_vision.path()}});
    CHECK(both.greedy().ids == named.greedy().ids);
  }

  TEST_CASE("quantised weights keep their codes: the adapter is applied beside them") {
    const DrawnCheckpoint adapter(case_folder("composed_llm"));
    for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kNf4, WeightFormat::kInt4,
                                      WeightFormat::kW8A8, WeightFormat::kW4A8Head4}) {
      CAPTURE(weights::describe(format));
      Run always("composed_llm", format, {{.folder = adapter.path()}});
      Run chosen("composed_llm", format, {{.folder = adapter.path(), .name = "one"}});
      CHECK(always.model->decoder().num_adapters() == 0);
      const Greedy a = always.greedy();
      const Greedy b = chosen.greedy(0);
      CHECK(a.ids == b.ids);
      CHECK(max_difference(a.first_logits, std::span<const float>(b.first_logits)) == 0.0);
      // The term moves the logits as it does without quantisation.
      const Greedy base = chosen.greedy();
      std::vector<float> moved;
      for (std::size_t i = 0; i < a.first_logits.size(); ++i) {
        moved.push_back(a.first_logits[i] - base.first_logits[i]);
      }
      CHECK(max_difference(moved, std::vector<float>(moved.size(), 0.0F)) > 0.1);
    }
  }

  TEST_CASE("bf16 weights are merged before they are rounded") {
    const DrawnCheckpoint adapter(case_folder("llama_all"));
    Run exact("llama_all", WeightFormat::kF32, {{.folder = adapter.path()}});
    Run rounded("llama_all", WeightFormat::kBF16, {{.folder = adapter.path()}});
    const Greedy a = exact.greedy();
    const Greedy b = rounded.greedy();
    double largest = 0;
    for (const float logit : a.first_logits) {
      largest = std::max(largest, static_cast<double>(std::abs(logit)));
    }
    const double drift = max_difference(b.first_logits, std::span<const float>(a.first_logits));
    CHECK(drift > 0.0);
    CHECK(drift < largest / 16);  // bf16_bound() of parity_test.cpp
  }

  TEST_CASE("keys of rank_pattern match as Python's expressions do") {
    struct Case {
      const char* pattern;
      const char* module;
      std::optional<bool> expected;
    };
    constexpr Case kPatterns[] = {
        {"q_proj", "model.layers.0.self_attn.q_proj", true},
        {"q_proj", "model.layers.0.self_attn.xq_proj", false},
        {"model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.q_proj", true},
        {"layers.0", "model.layers.0.self_attn", false},
        {"^layers.0.q", "model.layers.0.q", false},
        {"^model.layers.0.q$", "model.layers.0.q", true},
        {R"(layers\.\d+\.mlp\..*)", "model.layers.12.mlp.up_proj", true},
        {R"(layers\.\d+\.mlp)", "model.layers.x.mlp", false},
        {R"(layers.[0-3].mlp)", "model.layers.3.mlp", true},
        {R"(layers.[0-3].mlp)", "model.layers.4.mlp", false},
        {"l?ayers.0", "ayers.0", true},
        {".*", "", true},
        {"a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac", false},
        {"(q|k)_proj", "q_proj", std::nullopt},
        {"q_proj{2}", "q_proj", std::nullopt},
        {R"(\bq)", "q", std::nullopt},
        {"[^q]", "k", std::nullopt},
        {"a**", "a", std::nullopt},
        {"a\\", "a", std::nullopt},
        {"[", "a", std::nullopt},
    };
    for (const Case& c : kPatterns) {
      CAPTURE(c.pattern);
      CAPTURE(c.module);
      const auto pattern = model::ModulePattern::parse(c.pattern);
      REQUIRE(pattern.has_value() == c.expected.has_value());
      if (pattern.has_value()) CHECK(pattern->matches(c.module) == *c.expected);
    }
  }
}

}  // namespace
}  // namespace caption
