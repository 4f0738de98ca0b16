// A new family of language models needs one file and one entry of a list: this is the file,
// add_text_family() makes the entry. The toy is Qwen3 with other class defaults and another name.
#include <doctest/doctest.h>

#include <string>

#include "model/read_blueprint.h"
#include "model/text_family.h"
#include "tests/model/support.h"

namespace caption {
namespace {

using namespace testing;

model::TextConfig parse_toy(const JsonObject& config) {
  model::TextConfig text = model::parse_decoder_config(config, {.intermediate = 512,
                                                                .num_kv_heads = 2,
                                                                .head_dim = 64,
                                                                .vocab = 1000,
                                                                .max_positions = 256});
  text.spec.qk_norm = true;
  return text;
}

constexpr model::TextFamily kToy = {.model_type = "toy", .parse = parse_toy};

Greedy caption(const model::ComposedSource& source) {
  ThreadPool pool(2);
  Stream stream(tested_context(), pool);
  const auto model = model::open_composed(tested_context(), source, weights::WeightFormat::kF32);
  const Tensor pixels = golden_pixel_values(pool, *model, open_golden("composed_mlp"));
  const Tensor vision = model->encode_frames(stream, pixels.view());
  const model::PromptIds prompt = model->build_prompt("무엇이 보입니까?", {pixels.dim(0)});
  return run_greedy(stream, *model, prompt, vision.view(), 16);
}

TEST_SUITE("model/toy_family") {
  TEST_CASE("a family that is registered is sized, opened and run as those of the build") {
    const model::ComposedSource known = composed_source();
    REQUIRE(JsonObject::open(known.llm / "config.json", ErrorCode::kBadModel)
                .require_string("model_type") == "qwen3");
    model::ComposedSource toy = known;
    toy.llm = copy_checkpoint("composed", "toy_family") / "llm";
    replace_in_file(toy.llm / "config.json", "\"qwen3\"", "\"toy\"");
    const std::string refusal = "runs the decoders " + model::text_family_names();
    CHECK_THROWS_WITH_AS(caption(toy), doctest::Contains(refusal.c_str()), Error);

    model::add_text_family(kToy);
    CHECK(model::read_blueprint(toy.llm).text->qk_norm);
    const Greedy expected = caption(known);
    const Greedy found = caption(toy);
    CHECK(found.ids == expected.ids);
    CHECK(found.first_logits == expected.first_logits);
  }
}

}  // namespace
}  // namespace caption
