// Compares beam search with generate() of transformers (scripts/make_goldens_sampling.py): the
// output, the score and the number of model calls are the same.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "tests/sampling/table_model.h"

namespace caption::sampling {
using testing::SearchOfLogits;

namespace {

std::vector<std::int32_t> to_ids(const std::vector<std::int64_t>& values) {
  return {values.begin(), values.end()};
}

std::vector<float> to_floats(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

SamplingParams read_params(const JsonObject& json, const JsonObject& golden) {
  const auto get = [&](const char* key, std::int64_t otherwise) {
    return static_cast<std::int32_t>(json.get_int(key, otherwise, 0, 1000));
  };
  SamplingParams params;
  params.num_beams = get("num_beams", 0);
  params.length_penalty = json.get_double("length_penalty", 0);
  const std::string early = json.require_string("early_stopping");
  params.early_stopping = early == "yes"  ? EarlyStopping::kYes
                          : early == "no" ? EarlyStopping::kNo
                                          : EarlyStopping::kNever;
  params.max_new_tokens = get("max_new_tokens", golden.get_int("max_new_tokens", 0, 1, 1000));
  params.min_new_tokens = get("min_new_tokens", 0);
  params.repetition_penalty = json.get_double("repetition_penalty", 1.0);
  params.no_repeat_ngram_size = get("no_repeat_ngram_size", 0);
  params.stop_ids = to_ids((json.has("stop_ids") ? json : golden).get_ints("stop_ids"));
  return params;
}

TEST_SUITE("sampling/beam_search") {
  TEST_CASE("finds what transformers finds, with its score, in as many steps") {
    const JsonObject golden = JsonObject::open(
        std::filesystem::path(CAPTION_SOURCE_DIR) / "tests/golden/sampling/beams.json",
        ErrorCode::kBadReference);
    const std::int64_t vocab = golden.get_int("vocab", 0, 1, 1000);
    std::map<std::string, TableModel> models;
    for (const char* name : {"short", "long", "open"}) {
      const JsonObject table = *golden.get_object("tables")->get_object(name);
      models[name] = {vocab, to_floats(table.get_doubles("last")),
                      to_floats(table.get_doubles("second"))};
    }
    BeamScorer scorer(vocab);
    int num_cases = 0;
    for (const JsonObject& c : golden.get_objects("cases")) {
      const std::string name = c.require_string("name");
      CAPTURE(name);
      const SamplingParams params = read_params(*c.get_object("params"), golden);
      validate(params, vocab);
      SearchOfLogits search(params, to_ids(c.get_ints("prompt")));
      std::vector<float> logits;
      std::int64_t num_calls = 0;
      while (!search.is_finished()) {
        take_step(models.at(c.require_string("table")), search, scorer,
                  num_calls == 0 ? 1 : params.num_beams, logits);
        ++num_calls;
      }
      const BeamSearch::Best best = search.best();
      const std::vector<std::int32_t> expected = to_ids(c.get_ints("output"));
      CHECK(std::vector(best.output_ids.begin(), best.output_ids.end()) == expected);
      CHECK(num_calls == c.get_int("calls", 0, 1, 1000));
      const bool ends_in_stop_id = std::find(params.stop_ids.begin(), params.stop_ids.end(),
                                             expected.back()) != params.stop_ids.end();
      CHECK(best.is_stopped == ends_in_stop_id);

      // Each of the n log-probabilities (below 16, so half an ulp is 2^-21) and of their sums
      // (below 256: 2^-17) may be rounded differently; the division adds half an ulp of the score.
      const auto n = static_cast<double>(expected.size());
      const double score = c.get_double("score", 0);
      const double tolerance = n * (0x1p-20 + 0x1p-17) / std::pow(n, params.length_penalty) +
                               std::abs(score) * std::numeric_limits<float>::epsilon();
      CHECK(std::abs(best.score - score) <= tolerance);
      ++num_cases;
    }
    CHECK(num_cases == 208);
  }
}

}  // namespace
}  // namespace caption::sampling
