// Several adapters in one batch: each sequence has the bits that it has alone, and the tokens that
// PEFT gives.
#include <doctest/doctest.h>

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "tests/model/captioner_golden.h"
#include "tests/model/support.h"
#include "tests/support/drawn_checkpoint.h"
#include "tests/support/oracle_drafts.h"

namespace caption {
namespace {

namespace fs = std::filesystem;
using namespace testing;
using engine::Engine;
using engine::EngineOptions;
using weights::WeightFormat;

constexpr std::int32_t kNumAdapters = 3;
using Cases = std::array<const char*, kNumAdapters>;  // cases of one base, in tests/golden/lora
constexpr Cases kComposed = {"composed_llm", "composed_mlp", "composed_qv"};
constexpr Cases kQwen3Vl = {"qwen3_vl_text", "qwen3_vl_mlp", "qwen3_vl_qv"};

fs::path case_folder(std::string_view name) {
  return fs::path(CAPTION_SOURCE_DIR) / "tests/golden/lora" / name;
}

// Tokens and their log-probabilities, which show a changed bit of the logits.
struct Output {
  std::vector<std::int32_t> ids;
  std::vector<double> logprobs;
  friend bool operator==(const Output&, const Output&) = default;
};
using Outputs = std::vector<Output>;

// A case's golden: its only clip, or the first of several.
JsonObject open_clip(std::string_view name) {
  JsonObject golden =
      JsonObject::open(case_folder(name) / "expected.json", ErrorCode::kBadReference);
  const std::vector<JsonObject> clips = golden.get_objects("clips");
  return clips.empty() ? std::move(golden) : clips.front();
}

// The checkpoint of the base of these adapters; none for the composed one, which is committed.
std::unique_ptr<const DrawnCheckpoint> open_base(const Cases& cases) {
  if (std::string_view(cases.front()).starts_with("composed")) return nullptr;
  const JsonObject golden =
      JsonObject::open(case_folder(cases.front()) / "expected.json", ErrorCode::kBadReference);
  return std::make_unique<const DrawnCheckpoint>(
      case_folder("../" + golden.require_string("base")));
}

// The adapters of some cases, in order, with names, and their base.
struct Adapters {
  explicit Adapters(const Cases& cases) : base(open_base(cases)) {
    for (const char* const name : cases) {
      folders.push_back(std::make_unique<DrawnCheckpoint>(case_folder(name)));
      sources.push_back({.folder = folders.back()->path(), .name = name});
    }
  }

  std::unique_ptr<model::CaptionModel> open(const std::vector<model::AdapterSource>& chosen,
                                            WeightFormat format) const {
    return base == nullptr
               ? model::open_composed(tested_context(), composed_source(), format,
                                      {.adapters = chosen})
               : model::open_model(tested_context(), base->path(), format, {.adapters = chosen});
  }

  std::unique_ptr<const DrawnCheckpoint> base;
  std::vector<std::unique_ptr<DrawnCheckpoint>> folders;
  std::vector<model::AdapterSource> sources;
};

// A model with some adapters and the clip of a golden.
struct Workload {
  Workload(std::string_view clip, std::unique_ptr<model::CaptionModel> opened)
      : golden(open_clip(clip)),
        model(std::move(opened)),
        pixel_values(golden_pixel_values(pool, *model, golden)),
        vision(std::make_shared<const Tensor>(model->encode_frames(stream, pixel_values.view()))),
        prompt(model->build_prompt(model->default_prompt(), golden_shape(golden))) {}

  // Without an adapter, a request for the model alone.
  engine::Request request(std::optional<std::int32_t> adapter, std::int32_t num_beams = 1) const {
    engine::Request request;
    request.prompt_ids = prompt.ids;
    request.vision_positions = prompt.vision_positions;
    request.positions = prompt.positions;
    request.vision = vision;
    request.adapter = adapter;
    if (adapter.has_value()) {
      request.page_identity = Hash128{7, static_cast<std::uint64_t>(*adapter)};
    }
    request.sampling.max_new_tokens = static_cast<std::int32_t>(golden.get_ints("greedy").size());
    request.sampling.stop_ids = model->eos_ids();
    request.sampling.num_beams = num_beams;
    if (num_beams == 1) request.sampling.num_logprobs = 0;
    return request;
  }

  ThreadPool pool{2};
  Stream stream{tested_context(), pool};
  JsonObject golden;
  std::unique_ptr<model::CaptionModel> model;
  Tensor pixel_values;
  std::shared_ptr<const Tensor> vision;
  model::PromptIds prompt;
};

Outputs run(Workload& workload, const EngineOptions& options,
            const std::vector<engine::Request>& requests) {
  Engine engine(workload.model->decoder(), workload.stream, options);
  std::map<engine::RequestId, std::size_t> index;
  for (const engine::Request& request : requests) {
    index.emplace(engine.submit(request), index.size());
  }
  Outputs outputs(requests.size());
  while (!engine.idle()) {
    for (engine::Completion& done : engine.step()) {
      Output& output = outputs[index.at(done.id)];
      output.ids = std::move(done.output_ids);
      for (const sampling::TokenLogprobs& token : done.logprobs) {
        output.logprobs.push_back(token.chosen.logprob);
      }
    }
  }
  return outputs;
}

// Returns the bytes of the pages of two requests.
std::int64_t bytes_for_two(const Workload& workload) {
  constexpr std::int64_t kPageTokens = 16;
  const model::DecoderSpec& spec = workload.model->decoder().spec();
  const std::int64_t tokens =
      std::ssize(workload.prompt.ids) + std::ssize(workload.golden.get_ints("greedy"));
  const std::int64_t pages = 2 * ((tokens + kPageTokens - 1) / kPageTokens + 1);
  return pages * kPageTokens * spec.num_layers * 2 * spec.num_kv_heads * spec.head_dim * 4;
}

TEST_SUITE("model/adapter_engine") {
  TEST_CASE("three adapters and none in one batch: each as alone, and as PEFT") {
    std::vector<std::pair<Cases, std::int32_t>> clips = {
        {kComposed, 0}, {kComposed, 1}, {kComposed, 2}};
    // Not on the mirror, where a step costs milliseconds more.
    if (tested_context().device == Device::kCpu) {
      clips.insert(clips.end(), {{kQwen3Vl, 0}, {kQwen3Vl, 1}, {kQwen3Vl, 2}});
    }
    for (const auto& [cases, own] : clips) {
      const char* const name = cases[static_cast<std::size_t>(own)];
      CAPTURE(std::string(name));
      const Adapters adapters(cases);
      Workload workload(name, adapters.open(adapters.sources, WeightFormat::kF32));
      const EngineOptions plain;
      // What each request has alone, in a model that has its adapter only.
      Outputs alone;
      for (std::int32_t i = 0; i < kNumAdapters; ++i) {
        Workload single(name, adapters.open({adapters.sources[static_cast<std::size_t>(i)]},
                                            WeightFormat::kF32));
        alone.push_back(run(single, plain, {single.request(0)}).front());
      }
      Workload base(name, adapters.open({}, WeightFormat::kF32));
      alone.push_back(run(base, plain, {base.request(std::nullopt)}).front());
      const std::vector<std::int64_t> expected = workload.golden.get_ints("greedy");
      CHECK(std::equal(expected.begin(), expected.end(),
                       alone[static_cast<std::size_t>(own)].ids.begin(),
                       alone[static_cast<std::size_t>(own)].ids.end()));

      std::vector<engine::Request> requests;
      Outputs wanted;
      for (const int i : {0, 1, 2, 3, 3, 2, 1, 0, 0}) {  // 3: no adapter
        requests.push_back(
            workload.request(i == kNumAdapters ? std::nullopt : std::optional<std::int32_t>(i)));
        wanted.push_back(alone[static_cast<std::size_t>(i)]);
      }
      struct Variant {
        const char* name;
        std::function<void(EngineOptions&)> change;
      };
      OracleDrafts drafts(static_cast<std::int32_t>(workload.model->decoder().spec().vocab));
      drafts.add(workload.prompt.ids, alone.front().ids);
      const Variant kVariants[] = {
          {"all at once", [](EngineOptions&) {}},
          {"two at a time", [](EngineOptions& o) { o.max_num_seqs = 2; }},
          {"in chunks of 7", [](EngineOptions& o) { o.max_num_batched_tokens = 7; }},
          {"found again", [](EngineOptions& o) { o.prefix_cache = engine::PrefixCache::kOn; }},
          {"few pages", [&](EngineOptions& o) { o.kv_cache_bytes = bytes_for_two(workload); }},
          {"with drafts",
           [&](EngineOptions& o) {
             o.draft_source = &drafts;
             o.max_drafts = 5;
           }},
      };
      for (const Variant& variant : kVariants) {
        CAPTURE(variant.name);
        EngineOptions options;
        variant.change(options);
        const Outputs found = run(workload, options, requests);
        CHECK((found == wanted));
      }
    }
  }

  TEST_CASE("quantised weights and beams: each as alone") {
    const Adapters adapters(kComposed);
    for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kW8A8}) {
      Workload workload(kComposed[0], adapters.open(adapters.sources, format));
      for (const std::int32_t num_beams : {1, 3}) {
        CAPTURE(num_beams);
        std::vector<engine::Request> requests;
        Outputs alone;
        for (std::int32_t i = 0; i < kNumAdapters; ++i) {
          requests.push_back(workload.request(i, num_beams));
          alone.push_back(run(workload, {}, {requests.back()}).front());
        }
        requests.push_back(workload.request(std::nullopt, num_beams));
        alone.push_back(run(workload, {}, {requests.back()}).front());
        CHECK((run(workload, {}, requests) == alone));
        CHECK(alone[0].ids != alone[1].ids);
        CHECK(alone[0].ids != alone[3].ids);
      }
    }
  }

  TEST_CASE("an adapter that the model does not have is a fault of the program") {
    const Adapters adapters(kComposed);
    Workload workload(kComposed[0], adapters.open(adapters.sources, WeightFormat::kF32));
    Engine engine(workload.model->decoder(), workload.stream, {});
    CHECK_THROWS_WITH_AS(engine.submit(workload.request(3)), doctest::Contains("adapter 3 of 3"),
                         Error);
    engine::Request request = workload.request(0);
    request.page_identity.reset();
    CHECK_THROWS_WITH_AS(engine.submit(request),
                         doctest::Contains("without the identity of its pages"), Error);
    CHECK(engine.idle());
  }
}

}  // namespace
}  // namespace caption
