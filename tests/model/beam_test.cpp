// Beam search in the engine against generate() of transformers, on real checkpoints.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "tests/model/support.h"

namespace caption {
namespace {

using namespace testing;

std::vector<std::int32_t> to_ids(const std::vector<std::int64_t>& values) {
  return {values.begin(), values.end()};
}

TEST_SUITE("model/engine") {
  TEST_CASE("beams are the reference's, alone and side by side") {
    ThreadPool pool(2);
    Stream stream(testing::tested_context(), pool);
    for (const GoldenCase& c : golden_cases()) {
      CAPTURE(std::string(c.name));
      const JsonObject golden = open_golden(c.name);
      const auto model = open_case(c.name);
      const Tensor pixel_values = golden_pixel_values(pool, *model, golden);
      const auto vision =
          std::make_shared<const Tensor>(model->encode_frames(stream, pixel_values.view()));
      const model::PromptIds prompt =
          model->build_prompt("이 영상을 자세히 설명해 주세요.", {pixel_values.dim(0)});
      const std::vector<JsonObject> cases = golden.get_objects("beams");
      REQUIRE(cases.size() == 4);

      engine::EngineOptions options;
      options.max_num_seqs = 16;
      engine::Engine engine(model->decoder(), stream, options);
      std::vector<engine::RequestId> ids;
      for (const JsonObject& beams : cases) {
        engine::Request request;
        request.prompt_ids = prompt.ids;
        request.vision_positions = prompt.vision_positions;
        request.vision = vision;
        const auto get = [&](const char* key) {
          return static_cast<std::int32_t>(beams.get_int(key, 0, 1, 1000));
        };
        request.sampling.num_beams = get("num_beams");
        request.sampling.max_new_tokens = get("max_new_tokens");
        request.sampling.length_penalty = beams.get_double("length_penalty", 0);
        request.sampling.early_stopping = beams.require_string("early_stopping") == "yes"
                                              ? sampling::EarlyStopping::kYes
                                              : sampling::EarlyStopping::kNo;
        request.sampling.stop_ids = to_ids(beams.get_ints("stop_ids"));
        ids.push_back(engine.submit(std::move(request)));
      }
      std::size_t num_done = 0;
      while (!engine.idle()) {
        for (const engine::Completion& done : engine.step()) {
          std::size_t i = 0;
          while (ids[i] != done.id) ++i;
          CAPTURE(i);
          const double expected = cases[i].get_double("score", 0);
          CHECK(done.output_ids == to_ids(cases[i].get_ints("output")));
          // The largest difference measured is 7e-7. A logit differs by at most 1e-4 (parity_test),
          // and with length_penalty 1.2 the score of n = 24 tokens is the mean of their
          // log-probabilities / n^0.2.
          CHECK(std::abs(done.beam_score - expected) < 1e-4);
          ++num_done;
        }
      }
      CHECK(num_done == cases.size());
    }
  }
}

}  // namespace
}  // namespace caption
