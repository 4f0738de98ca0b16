// The language models alone compared with transformers in float32: logits and greedy ids of small
// checkpoints of every family, through the decoder and through the engine.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "model/internal/placed_weights.h"
#include "model/internal/transformer_decoder.h"
#include "model/text_family.h"
#include "tests/model/support.h"
#include "tests/support/drawn_checkpoint.h"
#include "weights/checkpoint.h"

namespace caption {
namespace {

namespace fs = std::filesystem;
using namespace testing;
using weights::WeightFormat;

constexpr double kTolerance = 1e-4;  // bound of the differences of f32 logits
constexpr std::size_t kLeastCases = 6;
constexpr const char* kFamilies[] = {"llama", "mistral", "qwen2", "qwen3"};

// Returns the folders of a family's cases, sorted.
std::vector<fs::path> cases_of(std::string_view family) {
  const fs::path folder = fs::path(CAPTION_SOURCE_DIR) / "tests/golden/families" / family;
  std::vector<fs::path> cases;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    cases.push_back(entry.path());
  }
  std::sort(cases.begin(), cases.end());
  return cases;
}

std::vector<fs::path> all_cases() {
  std::vector<fs::path> cases;
  for (const char* const family : kFamilies) {
    for (fs::path& path : cases_of(family)) cases.push_back(std::move(path));
  }
  return cases;
}

// One case: its checkpoint with drawn weights, and what the reference computes.
class Backbone {
 public:
  explicit Backbone(const fs::path& golden)
      : checkpoint_(golden),
        expected(JsonObject::open(golden / "expected.json", ErrorCode::kBadReference)) {
    const JsonObject config =
        JsonObject::open(checkpoint_.path() / "config.json", ErrorCode::kBadModel);
    model::add_decoder(blueprint_, model::parse_text_config(config).spec, {"model."}, {""});
    std::vector<std::unique_ptr<weights::Source>> sources;
    sources.push_back(
        std::make_unique<weights::Checkpoint>(weights::Checkpoint::open(checkpoint_.path())));
    weights_ = std::make_unique<model::PlacedWeights>(stream, blueprint_, std::move(sources),
                                                      WeightFormat::kF32);
    decoder_ = std::make_unique<model::TransformerDecoder>(stream, *weights_, blueprint_);
  }

  model::Decoder& decoder() { return *decoder_; }
  const model::DecoderSpec& spec() const { return *blueprint_.text; }
  std::vector<std::int32_t> ids(std::string_view key) const {
    const std::vector<std::int64_t> wide = expected.get_ints(key);
    return {wide.begin(), wide.end()};
  }
  model::PromptIds prompt() const {
    model::PromptIds prompt;
    prompt.ids = ids("prompt");
    return prompt;
  }

 private:
  DrawnCheckpoint checkpoint_;

 public:
  JsonObject expected;
  ThreadPool pool{2};
  Stream stream{tested_context(), pool};

 private:
  model::Blueprint blueprint_;
  std::unique_ptr<model::PlacedWeights> weights_;
  std::unique_ptr<model::TransformerDecoder> decoder_;
};

std::string name_of(const fs::path& golden) {
  return golden.parent_path().filename().string() + "/" + golden.filename().string();
}

engine::Request make_request(std::vector<std::int32_t> prompt, std::int32_t max_new_tokens) {
  engine::Request request;
  request.prompt_ids = std::move(prompt);
  request.sampling.max_new_tokens = max_new_tokens;
  return request;
}

std::map<engine::RequestId, engine::Completion> run_all(engine::Engine& engine) {
  std::map<engine::RequestId, engine::Completion> completions;
  while (!engine.idle()) {
    for (engine::Completion& c : engine.step()) completions.emplace(c.id, std::move(c));
  }
  return completions;
}

TEST_SUITE("model/backbone_parity") {
  TEST_CASE("logits are within 1e-4 of the reference's, and 64 greedy tokens are equal") {
    std::set<model::RopeKind> kinds;
    for (const char* const family : kFamilies) {
      CHECK(cases_of(family).size() >= kLeastCases);
    }
    for (const fs::path& golden : all_cases()) {
      CAPTURE(name_of(golden));
      Backbone backbone(golden);
      kinds.insert(backbone.spec().rope.kind);
      const model::PromptIds prompt = backbone.prompt();
      const auto num_prompt = std::ssize(prompt.ids);
      const std::vector<std::int32_t> greedy = backbone.ids("greedy");
      CHECK(greedy.size() == 64);
      Sequence sequence(backbone.decoder(), DType::kF32, num_prompt + std::ssize(greedy));
      Tensor logits = sequence.prefill(backbone.stream, prompt, ConstView{}, num_prompt);
      const std::vector<double> expected = backbone.expected.get_doubles("logits");
      std::size_t first = 0;
      for (const std::int64_t row : backbone.expected.get_ints("logit_rows")) {
        CAPTURE(row);
        const std::span<const float> found = row_of(logits, row);
        CHECK(max_difference(found, std::span(expected).subspan(first, found.size())) < kTolerance);
        first += found.size();
      }
      CHECK(first == expected.size());
      std::vector<std::int32_t> found;
      for (;;) {
        found.push_back(argmax(row_of(logits, logits.dim(0) - 1)));
        if (found.size() == greedy.size()) break;
        logits = sequence.decode(backbone.stream, found.back());
      }
      CHECK(found == greedy);
      CHECK(max_difference(row_of(logits, logits.dim(0) - 1),
                           backbone.expected.get_doubles("last_logits")) < kTolerance);
    }
    CHECK(kinds.size() == 5);
  }

  TEST_CASE("chunks, pages and threads do not change a bit of the logits in windows") {
    for (const fs::path& golden : all_cases()) {
      CAPTURE(name_of(golden));
      Backbone backbone(golden);
      if (!backbone.spec().has_window()) continue;
      const model::PromptIds prompt = backbone.prompt();
      const auto num_prompt = std::ssize(prompt.ids);
      Sequence whole(backbone.decoder(), DType::kI8, num_prompt);
      const Tensor expected = whole.prefill(backbone.stream, prompt, ConstView{}, num_prompt);
      ThreadPool one(1);
      Stream single(backbone.stream.context(), one);
      for (const std::int64_t chunk : {1, 17, 64}) {
        CAPTURE(chunk);
        Sequence pieces(backbone.decoder(), DType::kI8, num_prompt, 77, 7);
        Tensor logits;
        while (pieces.num_tokens() < num_prompt) {
          logits = pieces.prefill(single, prompt, ConstView{}, chunk);
        }
        CHECK(max_difference(row_of(logits, logits.dim(0) - 1), row_of(expected, num_prompt - 1)) ==
              0.0);
      }
    }
  }

  // Three requests share a pool that is too small for two of them, and prompts are computed in
  // chunks, so requests are preempted and prefixes found while pages leave the windows.
  TEST_CASE("the engine finds the reference's tokens while pages are released") {
    std::int64_t num_preemptions = 0;
    std::int64_t num_hit_tokens = 0;
    for (const fs::path& golden : all_cases()) {
      CAPTURE(name_of(golden));
      Backbone backbone(golden);
      const std::vector<std::int32_t> prompt = backbone.ids("prompt");
      const std::vector<std::int32_t> greedy = backbone.ids("greedy");
      const auto num_new = static_cast<std::int32_t>(greedy.size());
      const auto num_pages = static_cast<std::int64_t>(prompt.size() + greedy.size()) / 16 + 3;
      engine::EngineOptions options;
      options.kv_cache_bytes = num_pages * 16 * model::kv_token_bytes(backbone.spec(), DType::kF32);
      options.max_num_batched_tokens = 24;
      options.prefix_cache = engine::PrefixCache::kOn;
      engine::Engine engine(backbone.decoder(), backbone.stream, options);
      const std::vector<std::int32_t> half(prompt.begin(), prompt.begin() + std::ssize(prompt) / 2);
      const engine::RequestId first = engine.submit(make_request(prompt, num_new));
      const engine::RequestId shorter = engine.submit(make_request(half, num_new));
      const engine::RequestId last = engine.submit(make_request(prompt, num_new));
      const auto found = run_all(engine);
      CHECK(found.at(first).output_ids == greedy);
      CHECK(found.at(last).output_ids == greedy);
      num_preemptions += engine.stats().preemptions;
      num_hit_tokens += engine.stats().prefix_hit_tokens;

      engine::Engine alone(backbone.decoder(), backbone.stream, options);
      const engine::RequestId same = alone.submit(make_request(half, num_new));
      CHECK(run_all(alone).at(same).output_ids == found.at(shorter).output_ids);
      const std::int64_t window = backbone.spec().window_of_all_layers();
      if (window == 0) continue;
      // The pages of a window and a chunk, each of which may begin inside a page.
      CHECK(alone.stats().pages_peak <= (window + 24) / 16 + 2);
    }
    CHECK(num_preemptions > 5);
    CHECK(num_hit_tokens > 100);
  }
}

}  // namespace
}  // namespace caption
