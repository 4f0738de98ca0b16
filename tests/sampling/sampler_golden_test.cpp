// Compares the chain with the logits processors of transformers (scripts/make_goldens_sampling.py):
// the same ids remain, with the same log-probabilities.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "sampling/sampler.h"

namespace caption::sampling {
namespace {

std::vector<std::int32_t> to_ids(const std::vector<std::int64_t>& values) {
  return {values.begin(), values.end()};
}

SamplingParams read_params(const JsonObject& json, const std::vector<std::int32_t>& stop_ids) {
  SamplingParams params;
  params.temperature = json.get_double("temperature", 1.0);
  params.top_k = static_cast<std::int32_t>(json.get_int("top_k", 0, 0, 1000));
  params.top_p = json.get_double("top_p", 1.0);
  params.repetition_penalty = json.get_double("repetition_penalty", 1.0);
  params.no_repeat_ngram_size =
      static_cast<std::int32_t>(json.get_int("no_repeat_ngram_size", 0, 0, 100));
  params.min_new_tokens = static_cast<std::int32_t>(json.get_int("min_new_tokens", 0, 0, 100));
  params.stop_ids = stop_ids;
  return params;
}

TEST_SUITE("sampling/sampler") {
  TEST_CASE("leaves the ids and probabilities that transformers leaves") {
    const JsonObject golden = JsonObject::open(
        std::filesystem::path(CAPTION_SOURCE_DIR) / "tests/golden/sampling/chain.json",
        ErrorCode::kBadReference);
    const std::vector<std::int32_t> stop_ids = to_ids(golden.get_ints("stop_ids"));
    int num_cases = 0;
    for (const JsonObject& c : golden.get_objects("cases")) {
      const std::string name = c.require_string("name");
      CAPTURE(name);
      const std::vector<double> row =
          golden.get_object("rows")->get_doubles(c.require_string("row"));
      std::vector<float> logits(row.begin(), row.end());
      const JsonObject history =
          *golden.get_object("histories")->get_object(c.require_string("history"));
      std::vector<std::int32_t> ids = to_ids(history.get_ints("prompt"));
      const auto num_prompt = static_cast<std::int64_t>(ids.size());
      for (const std::int64_t id : history.get_ints("output")) {
        ids.push_back(static_cast<std::int32_t>(id));
      }
      const SamplingParams params = read_params(*c.get_object("params"), stop_ids);
      const std::vector<std::int32_t> expected_ids = to_ids(c.get_ints("kept"));

      Sampler sampler(std::ssize(logits));
      if (params.temperature == 0) {
        CHECK(sampler.sample(params, {ids, num_prompt}, logits) == expected_ids.at(0));
      } else {
        sampler.penalise(params, {ids, num_prompt}, logits);
        const auto warped = sampler.warp(params, logits);
        std::vector<TokenProbability> kept(warped.begin(), warped.end());
        std::sort(kept.begin(), kept.end(),
                  [](const auto& a, const auto& b) { return a.id < b.id; });
        const std::vector<double> expected = c.get_doubles("log_probs");
        std::vector<std::int32_t> kept_ids;
        for (const TokenProbability& token : kept) kept_ids.push_back(token.id);
        CHECK(kept_ids == expected_ids);
        for (std::size_t i = 0; i < std::min(kept.size(), expected.size()); ++i) {
          // Scores are the same floats; the softmax is double on both sides, and the file has ten
          // decimals.
          CHECK(std::abs(std::log(kept[i].probability) - expected[i]) <= 1e-9);
        }
      }
      ++num_cases;
    }
    CHECK(num_cases == 38);
  }
}

}  // namespace
}  // namespace caption::sampling
