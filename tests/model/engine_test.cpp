// Real decoders in the engine: a caption does not depend on the other requests.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "tensor/copy.h"
#include "tests/model/captioner_golden.h"
#include "tests/model/support.h"
#include "tests/support/oracle_drafts.h"

namespace caption {
namespace {

using namespace testing;
using engine::BatchMode;
using engine::Engine;
using engine::EngineOptions;

using Outputs = std::vector<std::vector<std::int32_t>>;  // one per request

constexpr std::int32_t kNewTokens = 64;  // four pages: enough to exceed a small cache

// Requests of different lengths to one model.
struct Workload {
  virtual ~Workload() = default;
  virtual engine::Request request(std::size_t i) = 0;

  std::size_t size() const { return prompts.size(); }

  // Returns a request on the first tokens of `vision` that a clip of this shape has.
  engine::Request make_request(std::size_t i, const model::ClipShape& shape, const Tensor& vision) {
    model::PromptIds prompt = model->build_prompt(prompts[i], shape);
    const ConstView used = vision.view().rows(0, model->vision_tokens(shape));
    engine::Request request;
    request.prompt_ids = std::move(prompt.ids);
    request.vision_positions = std::move(prompt.vision_positions);
    request.positions = std::move(prompt.positions);
    request.vision = std::make_shared<const Tensor>(copy_to(stream, stream.device(), used));
    request.sampling.max_new_tokens = kNewTokens;
    request.sampling.stop_ids = model->eos_ids();
    return request;
  }

  const std::vector<std::string> prompts = {
      "이 영상을 자세히 설명해 주세요.", "", "What is happening in this video?",
      "영상에는 파란 하늘 아래 넓은 공원이 보입니다. 나무가 바람에 흔들리고 있습니다.", "왜?"};
  ThreadPool pool{2};
  Stream stream{testing::tested_context(), pool};
  std::unique_ptr<model::CaptionModel> model;
};

// Requests on one clip: its first frame, its first two frames, and all three.
struct OneClip final : Workload {
  explicit OneClip(std::string_view name) : golden(open_golden(name)) {
    model = open_case(name);
    pixel_values = golden_pixel_values(pool, *model, golden);
    vision = model->encode_frames(stream, pixel_values.view());
  }

  engine::Request request(std::size_t i) override {
    const std::int64_t frames = i == 0 ? pixel_values.dim(0) : 1 + static_cast<std::int64_t>(i % 3);
    return make_request(i, {frames}, vision);
  }

  JsonObject golden;
  Tensor pixel_values;
  Tensor vision;
};

// Requests on the three clips of a captioner's golden.
struct SeveralClips final : Workload {
  SeveralClips(std::string_view family, std::string_view name) : golden(family, name) {
    model = golden.open();
    clips = golden.clips(pool, *model);
    for (const GoldenClip& clip : clips) {
      vision.push_back(model->encode_frames(stream, clip.pixel_values.view()));
    }
  }

  engine::Request request(std::size_t i) override {
    // Mostly the shortest clip, so that a budget for the longest one admits several requests.
    constexpr std::size_t kClipOf[] = {0, 2, 2, 1, 2};
    const std::size_t clip = kClipOf[i];
    return make_request(i, clips[clip].shape, vision[clip]);
  }

  CaptionerGolden golden;
  std::vector<GoldenClip> clips;
  std::vector<Tensor> vision;
};

// A golden checkpoint of a family besides those of OneClip.
struct FamilyCase {
  const char* family;
  const char* name;
};

// All families, but one on the mirror, where a step costs milliseconds more.
std::span<const FamilyCase> tested_families() {
  static constexpr FamilyCase kCases[] = {{"qwen3_vl", "untied_f32"},
                                          {"qwen2_5_vl", "untied_f32"},
                                          {"internvl", "vit_300m_f32"},
                                          {"llava_onevision", "qwen2_tied"}};
  const std::span<const FamilyCase> cases = kCases;
  return testing::tested_context().device == Device::kCpu ? cases : cases.first(1);
}

// The positions that a request's prompt takes.
std::int64_t num_positions(const engine::Request& request) {
  const auto& positions = request.positions;
  const auto num_prompt = static_cast<std::int32_t>(request.prompt_ids.size());
  return positions.empty()
             ? num_prompt
             : std::max(num_prompt, 1 + *std::max_element(positions.begin(), positions.end()));
}

// Submits the requests in `order` and runs the engine until it is idle.
Outputs run(Workload& workload, const EngineOptions& options, const std::vector<std::size_t>& order,
            std::int64_t* preemptions = nullptr, std::int32_t num_beams = 1) {
  Engine engine(workload.model->decoder(), workload.stream, options);
  std::map<engine::RequestId, std::size_t> index;
  for (const std::size_t i : order) {
    engine::Request request = workload.request(i);
    request.sampling.num_beams = num_beams;
    index[engine.submit(std::move(request))] = i;
  }
  Outputs outputs(workload.size());
  while (!engine.idle()) {
    for (engine::Completion& done : engine.step()) {
      outputs[index.at(done.id)] = std::move(done.output_ids);
    }
  }
  if (preemptions != nullptr) *preemptions = engine.stats().preemptions;
  return outputs;
}

// Returns the bytes of `pages` pages of 16 tokens with f32 keys and values.
std::int64_t bytes_of_pages(const model::DecoderSpec& spec, std::int64_t pages) {
  return pages * 16 * spec.num_layers * 2 * spec.num_kv_heads * spec.head_dim * 4;
}

// Checks that with any other requests every request has the tokens that it has alone with these
// options.
Outputs check_any_company(Workload& workload, const EngineOptions& options) {
  Outputs alone(workload.size());
  for (std::size_t i = 0; i < workload.size(); ++i) {
    alone[i] = run(workload, options, {i})[i];
    REQUIRE_FALSE(alone[i].empty());
  }
  struct Variant {
    const char* name;
    std::function<void(EngineOptions&)> change;
    std::vector<std::size_t> order;
  };
  // A budget of little more than the longest request, so that requests preempt one another.
  std::size_t longest = 0;
  for (std::size_t i = 0; i < workload.size(); ++i) {
    longest = std::max(longest, workload.request(i).prompt_ids.size() + kNewTokens);
  }
  const model::DecoderSpec& spec = workload.model->decoder().spec();
  const std::int64_t few_pages = static_cast<std::int64_t>(longest + 15) / 16 + 1;
  OracleDrafts drafts(static_cast<std::int32_t>(spec.vocab));
  for (std::size_t i = 0; i < workload.size(); ++i) {
    drafts.add(workload.request(i).prompt_ids, alone[i]);
  }
  const Variant kVariants[] = {
      {"all at once", [](EngineOptions&) {}, {0, 1, 2, 3, 4}},
      {"the other way round", [](EngineOptions&) {}, {4, 3, 2, 1, 0}},
      {"two at a time", [](EngineOptions& o) { o.max_num_seqs = 2; }, {2, 0, 4, 1, 3}},
      {"in chunks of 7", [](EngineOptions& o) { o.max_num_batched_tokens = 7; }, {0, 1, 2, 3, 4}},
      {"a static batch",
       [](EngineOptions& o) {
         o.batching = BatchMode::kStatic;
         o.max_num_seqs = 3;
       },
       {0, 1, 2, 3, 4}},
      {"found again",
       [](EngineOptions& o) { o.prefix_cache = engine::PrefixCache::kOn; },
       {0, 1, 2, 3, 4, 0, 1, 2, 3, 4}},
      {"with drafts",
       [&](EngineOptions& o) {
         o.draft_source = &drafts;
         o.max_drafts = 5;
       },
       {0, 1, 2, 3, 4}},
      {"few pages",
       [&](EngineOptions& o) { o.kv_cache_bytes = bytes_of_pages(spec, few_pages); },
       {0, 1, 2, 3, 4}},
  };
  for (const Variant& variant : kVariants) {
    CAPTURE(std::string(variant.name));
    EngineOptions changed = options;
    variant.change(changed);
    std::int64_t preemptions = 0;
    CHECK(run(workload, changed, variant.order, &preemptions) == alone);
    const bool is_full = options.compression.mode == engine::CompressionMode::kNone;
    if (is_full) CHECK((preemptions > 0) == (std::string(variant.name) == "few pages"));
  }
  return alone;
}

TEST_SUITE("model/engine") {
  TEST_CASE("a caption has the same tokens alone and in any batch, chunked, static or preempted") {
    for (const char* name : {"llama_bf16", "qwen3_shards", "composed_mlp"}) {
      CAPTURE(std::string(name));
      OneClip workload(name);
      const Outputs alone = check_any_company(workload, EngineOptions{});
      const std::vector<std::int64_t> reference = workload.golden.get_ints("greedy");
      REQUIRE(alone[0].size() >= reference.size());
      CHECK(std::equal(reference.begin(), reference.end(), alone[0].begin()));
    }
  }

  TEST_CASE("so it does for other families, with M-RoPE and DeepStack") {
    for (const FamilyCase& c : tested_families()) {
      CAPTURE(std::string(c.family));
      SeveralClips workload(c.family, c.name);
      check_any_company(workload, EngineOptions{});
    }
  }

  TEST_CASE("beams have the same tokens alone and together, in every family") {
    for (const FamilyCase& c : tested_families()) {
      CAPTURE(std::string(c.family));
      SeveralClips workload(c.family, c.name);
      const auto run_beams = [&](const std::vector<std::size_t>& order, std::int32_t max_tokens,
                                 engine::PrefixCache cache = engine::PrefixCache::kOff) {
        EngineOptions options;
        options.max_num_batched_tokens = max_tokens;
        options.prefix_cache = cache;
        return run(workload, options, order, nullptr, 3);
      };
      const Outputs together = run_beams({0, 1, 2}, 1024);
      CHECK(run_beams({2, 0, 1}, 17) == together);
      CHECK(run_beams({0, 1, 2, 2, 1, 0}, 1024, engine::PrefixCache::kOn) == together);
      for (std::size_t i = 0; i < 3; ++i) CHECK(run_beams({i}, 1024)[i] == together[i]);
    }
  }

  TEST_CASE("a prompt of three tokens more than the positions is refused, one that fits is not") {
    for (const FamilyCase& c : tested_families()) {
      CAPTURE(std::string(c.family));
      SeveralClips workload(c.family, c.name);
      Engine engine(workload.model->decoder(), workload.stream, {});
      const std::int64_t positions = workload.model->decoder().spec().max_positions;
      engine::Request request = workload.request(0);
      const auto fits = static_cast<std::int32_t>(positions - num_positions(request) + 1);
      request.sampling.max_new_tokens = fits + 3;
      const std::string lack = "need " + std::to_string(positions + 3) +
                               " positions; the model has " + std::to_string(positions);
      CHECK_THROWS_WITH_AS(engine.submit(request), doctest::Contains(lack.c_str()), Error);
      request.sampling.max_new_tokens = fits;
      CHECK_NOTHROW(engine.submit(request));
    }
  }

  TEST_CASE("compressed attention changes captions, and those are the same in any company") {
    using engine::CompressionMode;
    const EngineOptions options[] = {
        {.compression = {.mode = CompressionMode::kTopkMerge,
                         .window_tokens = 4,
                         .keep_tokens = 6,
                         .num_summaries = 2}},
        {.compression = {
             .mode = CompressionMode::kSqueezed, .tokens_per_cluster = 2, .threshold = 0.2F}}};
    for (const char* name : {"llama_bf16", "qwen3_shards"}) {
      CAPTURE(std::string(name));
      OneClip workload(name);
      const Outputs full = run(workload, EngineOptions{}, {0, 1, 2, 3, 4});
      for (const EngineOptions& compressed : options) {
        CAPTURE(static_cast<int>(compressed.compression.mode));
        CHECK(check_any_company(workload, compressed) != full);
      }
      EngineOptions keeps_all = options[0];
      keeps_all.compression.keep_tokens = 4096;
      CHECK(run(workload, keeps_all, {0, 1, 2, 3, 4}) == full);
    }
  }
}

}  // namespace
}  // namespace caption
